//! The 22 queries of TPC-H over a hundredth of its smallest scale, or less.
//!
//! The parameters of some queries are chosen so that they give rows at this scale.
//! Changed, every column but the keys is turned in its file, so that each row has values
//! of other rows.

use std::sync::OnceLock;

use arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::error::Result;
use reuse_tests::tables::{Format, Tables, parts, turned};
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen::text::TextPool;
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow,
    RegionArrow, SupplierArrow,
};

use super::shapes::{Case, EIGHT_PARTED_ROWS, FOUR, Setting, Source};

const SCALE: f64 = 0.004;

const SETTINGS: &[Setting] = &[FOUR, EIGHT_PARTED_ROWS];

/// The eight tables in Parquet files.
pub fn tables() -> Result<Tables> {
    static TEXT: OnceLock<TextPool> = OnceLock::new();
    let known = Distributions::static_default();
    // The text that TPC-H asks for takes longer to make than all of the tables.
    let text = TEXT.get_or_init(|| TextPool::new(1 << 20, known));

    let mut tables = Tables::default();
    let mut add = |name: &str,
                   files: usize,
                   rows: usize,
                   columns: &[&str],
                   reader: &mut dyn RecordBatchReader|
     -> Result<()> {
        let batches = reader.collect::<Result<Vec<RecordBatch>, _>>()?;
        let columns: Vec<_> = columns
            .iter()
            .enumerate()
            .map(|(index, column)| (*column, 7 + 6 * index))
            .collect();
        let files = parts(&batches, files)?
            .into_iter()
            .map(|file| turned(file, &columns))
            .collect::<Result<Vec<_>>>()?;
        tables.add(name, Format::Parquet(rows), &files)
    };
    let scale = SCALE;
    let generator = RegionGenerator::new_with_distributions_and_text_pool(known, text);
    add("region", 1, 100, &[], &mut RegionArrow::new(generator))?;
    let generator = NationGenerator::new_with_distributions_and_text_pool(known, text);
    add("nation", 1, 100, &[], &mut NationArrow::new(generator))?;
    let generator =
        PartGenerator::new_with_distributions_and_text_pool(scale, 1, 1, known, text);
    let columns = ["p_brand", "p_type", "p_size", "p_container", "p_name"];
    add("part", 2, 100, &columns, &mut PartArrow::new(generator))?;
    let generator =
        SupplierGenerator::new_with_distributions_and_text_pool(scale, 1, 1, known, text);
    let columns = ["s_acctbal", "s_nationkey", "s_comment"];
    add(
        "supplier",
        1,
        20,
        &columns,
        &mut SupplierArrow::new(generator),
    )?;
    let generator = PartSuppGenerator::new_with_text_pool(scale, 1, 1, text);
    let columns = ["ps_availqty", "ps_supplycost"];
    add(
        "partsupp",
        2,
        400,
        &columns,
        &mut PartSuppArrow::new(generator),
    )?;
    let generator =
        CustomerGenerator::new_with_distributions_and_text_pool(scale, 1, 1, known, text);
    let columns = ["c_acctbal", "c_mktsegment", "c_nationkey", "c_phone"];
    add(
        "customer",
        1,
        100,
        &columns,
        &mut CustomerArrow::new(generator),
    )?;
    let generator =
        OrderGenerator::new_with_distributions_and_text_pool(scale, 1, 1, known, text);
    let columns = [
        "o_totalprice",
        "o_orderdate",
        "o_orderstatus",
        "o_orderpriority",
        "o_comment",
    ];
    add("orders", 3, 400, &columns, &mut OrderArrow::new(generator))?;
    let generator =
        LineItemGenerator::new_with_distributions_and_text_pool(scale, 1, 1, known, text);
    let columns = [
        "l_quantity",
        "l_extendedprice",
        "l_discount",
        "l_tax",
        "l_returnflag",
        "l_linestatus",
        "l_shipdate",
        "l_receiptdate",
        "l_shipinstruct",
        "l_shipmode",
    ];
    add(
        "lineitem",
        4,
        1000,
        &columns,
        &mut LineItemArrow::new(generator),
    )?;
    Ok(tables)
}

/// One shape a query.
pub fn cases() -> Vec<Case> {
    let names = [
        "TPC-H 1", "TPC-H 2", "TPC-H 3", "TPC-H 4", "TPC-H 5", "TPC-H 6", "TPC-H 7",
        "TPC-H 8", "TPC-H 9", "TPC-H 10", "TPC-H 11", "TPC-H 12", "TPC-H 13", "TPC-H 14",
        "TPC-H 15", "TPC-H 16", "TPC-H 17", "TPC-H 18", "TPC-H 19", "TPC-H 20",
        "TPC-H 21", "TPC-H 22",
    ];
    names
        .into_iter()
        .zip(QUERIES)
        .map(|(name, sql)| {
            let mut case = Case::new(name, sql, SETTINGS);
            case.source = Source::Tpch;
            case
        })
        .collect()
}

const QUERIES: [&str; 22] = [
    // 1: pricing summary
    "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty,
       sum(l_extendedprice) AS sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
       avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price,
       avg(l_discount) AS avg_disc, count(*) AS count_order
     FROM lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90' day
     GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
    // 2: minimum cost supplier
    "SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
     FROM part, supplier, partsupp, nation, region
     WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size < 12
       AND p_type LIKE '%BRASS' AND s_nationkey = n_nationkey
       AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
       AND ps_supplycost = (
         SELECT min(ps_supplycost) FROM partsupp, supplier, nation, region
         WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey
           AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
           AND r_name = 'EUROPE')
     ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100",
    // 3: shipping priority
    "SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate,
       o_shippriority
     FROM customer, orders, lineitem
     WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey
       AND l_orderkey = o_orderkey AND o_orderdate < date '1995-03-15'
       AND l_shipdate > date '1995-03-15'
     GROUP BY l_orderkey, o_orderdate, o_shippriority
     ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10",
    // 4: order priority checking
    "SELECT o_orderpriority, count(*) AS order_count FROM orders
     WHERE o_orderdate >= date '1993-07-01'
       AND o_orderdate < date '1993-07-01' + interval '3' month
       AND EXISTS (SELECT * FROM lineitem
         WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
     GROUP BY o_orderpriority ORDER BY o_orderpriority",
    // 5: local supplier volume
    "SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
     FROM customer, orders, lineitem, supplier, nation, region
     WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
       AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey
       AND n_regionkey = r_regionkey AND r_name = 'ASIA'
       AND o_orderdate >= date '1994-01-01'
       AND o_orderdate < date '1994-01-01' + interval '2' year
     GROUP BY n_name ORDER BY revenue DESC",
    // 6: forecasting revenue change
    "SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
     WHERE l_shipdate >= date '1994-01-01'
       AND l_shipdate < date '1994-01-01' + interval '1' year
       AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24",
    // 7: volume shipping
    "SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue FROM (
       SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation,
         extract(year FROM l_shipdate) AS l_year,
         l_extendedprice * (1 - l_discount) AS volume
       FROM supplier, lineitem, orders, customer, nation n1, nation n2
       WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
         AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
         AND (n1.n_regionkey = 3 AND n2.n_regionkey = 2
           OR n1.n_regionkey = 2 AND n2.n_regionkey = 3)
         AND l_shipdate BETWEEN date '1995-01-01' AND date '1996-12-31') AS shipping
     GROUP BY supp_nation, cust_nation, l_year
     ORDER BY supp_nation, cust_nation, l_year",
    // 8: national market share
    "SELECT o_year, sum(CASE WHEN nation_key < 12 THEN volume ELSE 0 END) / sum(volume)
       AS mkt_share
     FROM (
       SELECT extract(year FROM o_orderdate) AS o_year,
         l_extendedprice * (1 - l_discount) AS volume, n2.n_nationkey AS nation_key
       FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
       WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey
         AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey
         AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
         AND s_nationkey = n2.n_nationkey
         AND o_orderdate BETWEEN date '1995-01-01' AND date '1996-12-31'
         AND p_type LIKE 'ECONOMY%') AS all_nations
     GROUP BY o_year ORDER BY o_year",
    // 9: product type profit
    "SELECT nation, o_year, sum(amount) AS sum_profit FROM (
       SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,
         l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
       FROM part, supplier, lineitem, partsupp, orders, nation
       WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
         AND p_partkey = l_partkey AND o_orderkey = l_orderkey
         AND s_nationkey = n_nationkey AND p_name LIKE '%green%') AS profit
     GROUP BY nation, o_year ORDER BY nation, o_year DESC",
    // 10: returned items
    "SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue,
       c_acctbal, n_name, c_address, c_phone, c_comment
     FROM customer, orders, lineitem, nation
     WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
       AND o_orderdate >= date '1993-10-01'
       AND o_orderdate < date '1993-10-01' + interval '3' month
       AND l_returnflag = 'R' AND c_nationkey = n_nationkey
     GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
     ORDER BY revenue DESC, c_custkey LIMIT 20",
    // 11: important stock
    "SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value
     FROM partsupp, supplier, nation
     WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_nationkey < 9
     GROUP BY ps_partkey
     HAVING sum(ps_supplycost * ps_availqty) > (
       SELECT sum(ps_supplycost * ps_availqty) * 0.004 FROM partsupp, supplier, nation
       WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_nationkey < 9)
     ORDER BY value DESC, ps_partkey",
    // 12: shipping modes
    "SELECT l_shipmode,
       sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH'
         THEN 1 ELSE 0 END) AS high_line_count,
       sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH'
         THEN 1 ELSE 0 END) AS low_line_count
     FROM orders, lineitem
     WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
       AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
       AND l_receiptdate >= date '1994-01-01'
       AND l_receiptdate < date '1994-01-01' + interval '1' year
     GROUP BY l_shipmode ORDER BY l_shipmode",
    // 13: customer distribution
    "SELECT c_count, count(*) AS custdist FROM (
       SELECT c_custkey, count(o_orderkey) AS c_count
       FROM customer LEFT OUTER JOIN orders
         ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
       GROUP BY c_custkey) AS c_orders
     GROUP BY c_count ORDER BY custdist DESC, c_count DESC",
    // 14: promotion effect
    "SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%'
         THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
       / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue
     FROM lineitem, part
     WHERE l_partkey = p_partkey AND l_shipdate >= date '1995-09-01'
       AND l_shipdate < date '1995-09-01' + interval '1' month",
    // 15: top supplier
    "WITH revenue AS (
       SELECT l_suppkey AS supplier_no, sum(l_extendedprice * (1 - l_discount)) AS total
       FROM lineitem WHERE l_shipdate >= date '1996-01-01'
         AND l_shipdate < date '1996-01-01' + interval '3' month
       GROUP BY l_suppkey)
     SELECT s_suppkey, s_name, s_address, s_phone, total FROM supplier, revenue
     WHERE s_suppkey = supplier_no AND total = (SELECT max(total) FROM revenue)
     ORDER BY s_suppkey",
    // 16: parts and suppliers
    "SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt
     FROM partsupp, part
     WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45'
       AND p_type NOT LIKE 'MEDIUM POLISHED%'
       AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
       AND ps_suppkey NOT IN (
         SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%the%')
     GROUP BY p_brand, p_type, p_size
     ORDER BY supplier_cnt DESC, p_brand, p_type, p_size",
    // 17: small-quantity orders
    "SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
     WHERE p_partkey = l_partkey AND p_brand LIKE 'Brand#2%'
       AND p_container LIKE 'MED%'
       AND l_quantity < (
         SELECT 0.4 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)",
    // 18: large volume customers
    "SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice,
       sum(l_quantity) AS quantity
     FROM customer, orders, lineitem
     WHERE o_orderkey IN (
         SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 240)
       AND c_custkey = o_custkey AND o_orderkey = l_orderkey
     GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
     ORDER BY o_totalprice DESC, o_orderdate, o_orderkey LIMIT 100",
    // 19: discounted revenue
    "SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, part
     WHERE (p_partkey = l_partkey AND p_brand LIKE 'Brand#1%'
         AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
         AND l_quantity >= 1 AND l_quantity <= 21 AND p_size BETWEEN 1 AND 25
         AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
       OR (p_partkey = l_partkey AND p_brand LIKE 'Brand#2%'
         AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
         AND l_quantity >= 10 AND l_quantity <= 30 AND p_size BETWEEN 1 AND 30
         AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
       OR (p_partkey = l_partkey AND p_brand LIKE 'Brand#3%'
         AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
         AND l_quantity >= 20 AND l_quantity <= 40 AND p_size BETWEEN 1 AND 35
         AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')",
    // 20: potential part promotion
    "SELECT s_name, s_address FROM supplier, nation
     WHERE s_suppkey IN (
         SELECT ps_suppkey FROM partsupp
         WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE '%o%')
           AND ps_availqty > (
             SELECT 0.5 * sum(l_quantity) FROM lineitem
             WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
               AND l_shipdate >= date '1994-01-01'
               AND l_shipdate < date '1994-01-01' + interval '1' year))
       AND s_nationkey = n_nationkey AND n_nationkey < 12
     ORDER BY s_name",
    // 21: suppliers who kept orders waiting
    "SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation
     WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey
       AND o_orderstatus = 'F' AND l1.l_receiptdate > l1.l_commitdate
       AND EXISTS (SELECT * FROM lineitem l2
         WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
       AND NOT EXISTS (SELECT * FROM lineitem l3
         WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
           AND l3.l_receiptdate > l3.l_commitdate)
       AND s_nationkey = n_nationkey AND n_nationkey > 12
     GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100",
    // 22: global sales opportunity
    "SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal FROM (
       SELECT substring(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal FROM customer
       WHERE substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17')
         AND c_acctbal > (
           SELECT avg(c_acctbal) FROM customer
           WHERE c_acctbal > 0.00 AND substring(c_phone FROM 1 FOR 2)
             IN ('13', '31', '23', '29', '30', '18', '17'))
         AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
     GROUP BY cntrycode ORDER BY cntrycode",
];
