//! Random queries whose rows do not depend on the order in which anything is read.
//!
//! Every relation names its columns `c0`, `c1`, ... A limit comes with an order by all
//! columns: rows that tie are the same row. Window functions whose value depends on a
//! row's place are ordered likewise.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use datafusion::error::Result;
use fastrand::Rng;
use reuse_tests::tables::{Format, Memory, Tables, batch, parts, turned};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Number,
    Text,
}
use Type::{Number, Text};

/// A table: its name, kind, files and rows.
const TABLES: &[(&str, Format, usize, usize)] = &[
    ("p0", Format::Parquet(20), 3, 300),
    ("p1", Format::Parquet(10), 1, 120),
    ("p2", Format::SortedParquet(25, "id"), 2, 200),
    ("c0", Format::Csv, 2, 150),
    ("j0", Format::Json, 1, 80),
    ("s0", Format::Stream(16), 2, 90),
];
const MEMORY: &[(&str, usize)] = &[("m0", 100), ("m1", 40)];

/// The columns of every table; those in memory have no text and no nulls.
const COLUMNS: &[(&str, Type)] = &[
    ("id", Number),
    ("k", Number),
    ("g", Number),
    ("v", Number),
    ("t", Text),
];

/// The files and streams. Changed, the columns but `id` are turned in each file.
pub fn tables() -> Result<Tables> {
    let mut rng = Rng::with_seed(55);
    let mut tables = Tables::default();
    for (name, format, files, rows) in TABLES {
        let mut column = |range: std::ops::Range<i64>, nulls: bool| -> ArrayRef {
            let values = (0..*rows).map(|_| {
                let value = rng.i64(range.clone());
                (!nulls || rng.u8(..) > 20).then_some(value)
            });
            Arc::new(values.collect::<Int64Array>())
        };
        let (k, g, v) = (
            column(0..40, true),
            column(0..6, true),
            column(-500..500, false),
        );
        let texts = (0..*rows).map(|_| format!("t{}", rng.u8(0..30)));
        let all = batch(vec![
            (
                "id",
                Arc::new(Int64Array::from_iter_values(0..*rows as i64)),
            ),
            ("k", k),
            ("g", g),
            ("v", v),
            ("t", Arc::new(StringArray::from_iter_values(texts))),
        ])?;
        let files = parts(&[all], *files)?
            .into_iter()
            .map(|file| turned(file, &[("k", 7), ("g", 11), ("v", 3), ("t", 5)]))
            .collect::<Result<Vec<_>>>()?;
        tables.add(name, format.clone(), &files)?;
    }
    Ok(tables)
}

/// The memory tables, of one plan each.
pub fn memory() -> Vec<Memory> {
    let mut rng = Rng::with_seed(56);
    MEMORY
        .iter()
        .map(|(name, rows)| {
            let mut column = |range: std::ops::Range<i64>, by: usize| {
                let first: Vec<_> = (0..*rows).map(|_| rng.i64(range.clone())).collect();
                let mut changed = first.clone();
                changed.rotate_left(by);
                [first, changed]
            };
            let columns = vec![
                ("k", column(0..40, 7)),
                ("g", column(0..6, 11)),
                ("v", column(-500..500, 3)),
            ];
            let id: Vec<_> = (0..*rows as i64).collect();
            let mut all = vec![("id", [id.clone(), id])];
            all.extend(columns);
            Memory::new(name, 16, all)
        })
        .collect()
}

/// A query; its rows are in order if it says so.
#[derive(Clone, Debug)]
pub struct Query {
    pub sql: String,
    pub ordered: bool,
}

impl Query {
    /// The same with its materialized CTEs inlined.
    pub fn inlined(&self) -> String {
        self.sql.replace(" AS MATERIALIZED ", " AS ")
    }

    pub fn has_materialized_cte(&self) -> bool {
        self.sql.contains(" AS MATERIALIZED ")
    }
}

/// A random query.
pub fn query(rng: &mut Rng) -> Query {
    let mut writer = Writer {
        rng,
        names: 0,
        ctes: vec![],
    };
    let depth = writer.rng.usize(1..4);
    let relation = writer.relation(depth);
    let ordered = writer.one_in(3);
    let sql = if ordered {
        writer.first_rows(relation).sql
    } else {
        relation.sql
    };
    Query { sql, ordered }
}

/// A query and its columns.
#[derive(Clone)]
struct Relation {
    sql: String,
    columns: Vec<Type>,
    /// About how many rows it has, at most.
    rows: usize,
}

impl Relation {
    fn numbers(&self) -> Vec<usize> {
        let columns = self.columns.iter().enumerate();
        columns
            .filter(|(_, it)| **it == Number)
            .map(|(index, _)| index)
            .collect()
    }
}

struct Writer<'a> {
    rng: &'a mut Rng,
    names: usize,
    /// The names of the CTEs that can be read, and their bodies.
    ctes: Vec<(String, Relation)>,
}

impl Writer<'_> {
    fn one_in(&mut self, n: usize) -> bool {
        self.rng.usize(0..n) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(0..of.len())]
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("x{}", self.names)
    }

    /// The name of a number column of `relation`, as `alias.c0`.
    fn number(&mut self, alias: &str, relation: &Relation) -> String {
        let numbers = relation.numbers();
        format!("{alias}.c{}", self.pick(&numbers))
    }

    fn relation(&mut self, depth: usize) -> Relation {
        if depth == 0 {
            return match self.ctes.is_empty() || self.one_in(3) {
                true => self.scan(),
                false => self.cte_scan(),
            };
        }
        let relation = match self.rng.usize(0..22) {
            0..=4 => self.join(depth),
            5..=7 => self.aggregate(depth),
            8..=10 => {
                let input = self.relation(depth - 1);
                self.first_rows(input)
            }
            11..=12 => self.window(depth),
            13 => self.set(depth),
            14..=15 => self.subquery(depth),
            16 => self.scalar_columns(depth),
            17 => self.project(depth),
            18 => self.recursion(depth),
            19..=20 => self.materialized(depth),
            _ => self.distinct(depth),
        };
        // Joins of joins would take most of the time.
        if relation.rows > 4000 {
            self.first_rows(relation)
        } else {
            relation
        }
    }

    fn scan(&mut self) -> Relation {
        // Parquet half of the time: it is where dynamic filters are read.
        let parquet = self.one_in(2);
        let mut tables: Vec<_> = TABLES
            .iter()
            .filter(|(name, ..)| name.starts_with('p') == parquet)
            .map(|(name, _, _, rows)| (*name, *rows, 5))
            .collect();
        if !parquet {
            tables.extend(MEMORY.iter().map(|(name, rows)| (*name, *rows, 4)));
        }
        let (table, rows, width) = self.pick(&tables);
        let mut columns: Vec<_> = COLUMNS[..width].to_vec();
        self.rng.shuffle(&mut columns);
        // One of them is a number.
        let keep = self.rng.usize(2..=width);
        columns.truncate(keep);
        let list: Vec<_> = columns
            .iter()
            .enumerate()
            .map(|(index, (name, _))| format!("{name} AS c{index}"))
            .collect();
        let mut sql = format!("SELECT {} FROM {table}", list.join(", "));
        if self.one_in(2) {
            let (column, low, high) = self.pick(&[
                ("id", 0, rows as i64),
                ("k", 0, 40),
                ("g", 0, 6),
                ("v", -500, 500),
            ]);
            let predicate = self.predicate(column, low, high);
            sql += &format!(" WHERE {predicate}");
        }
        Relation {
            sql,
            columns: columns.into_iter().map(|(_, it)| it).collect(),
            rows,
        }
    }

    /// Some columns of a CTE, one of them a number.
    fn cte_scan(&mut self) -> Relation {
        let (name, body) = self.ctes[self.rng.usize(0..self.ctes.len())].clone();
        let numbers = body.numbers();
        let mut read = vec![self.pick(&numbers)];
        read.extend((0..body.columns.len()).filter(|_| self.rng.bool()));
        let list: Vec<_> = read
            .iter()
            .enumerate()
            .map(|(index, column)| format!("{name}.c{column} AS c{index}"))
            .collect();
        let mut sql = format!("SELECT {} FROM {name}", list.join(", "));
        if self.one_in(3) {
            let number = self.number(&name, &body);
            sql += &format!(" WHERE {}", self.predicate(&number, -20, 60));
        }
        Relation {
            sql,
            columns: read.iter().map(|column| body.columns[*column]).collect(),
            rows: body.rows,
        }
    }

    /// A CTE that is computed once, and read anywhere below, or nowhere.
    fn materialized(&mut self, depth: usize) -> Relation {
        let body = self.relation(depth - 1);
        let (name, a) = (self.name(), self.name());
        let cte = format!("WITH {name} AS MATERIALIZED ({})", body.sql);
        self.ctes.push((name, body));
        let rest = self.relation(depth - 1);
        self.ctes.pop();
        let all = Self::all(&a, &rest);
        Relation {
            sql: format!("{cte} SELECT {all} FROM ({}) {a}", rest.sql),
            ..rest
        }
    }

    /// A predicate over a number that is about in this range.
    fn predicate(&mut self, number: &str, low: i64, high: i64) -> String {
        let (value, width) = (self.rng.i64(low..high), (high - low) / 3);
        match self.rng.usize(0..6) {
            0 => format!("{number} < {}", value + width),
            1 => format!("{number} >= {}", value - width),
            2 => format!("{number} % 3 <> {}", value.abs() % 3),
            3 => format!("{number} BETWEEN {} AND {}", value - width, value + width),
            4 => format!("({number} IS NULL OR {number} > {value})"),
            _ => format!("{number} <> {value}"),
        }
    }

    /// All columns of `alias`, under their names.
    fn all(alias: &str, relation: &Relation) -> String {
        let list = 0..relation.columns.len();
        let list: Vec<_> = list
            .map(|index| format!("{alias}.c{index} AS c{index}"))
            .collect();
        list.join(", ")
    }

    /// An order by all columns, one of them first.
    fn order(&mut self, alias: &str, relation: &Relation) -> String {
        let mut columns: Vec<_> = (0..relation.columns.len()).collect();
        let first = self.rng.usize(0..columns.len());
        columns.swap(0, first);
        let keys: Vec<_> = columns
            .into_iter()
            .map(|column| {
                let how = self.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
                format!("{alias}.c{column}{how}")
            })
            .collect();
        keys.join(", ")
    }

    fn first_rows(&mut self, input: Relation) -> Relation {
        let a = self.name();
        let (all, order) = (Self::all(&a, &input), self.order(&a, &input));
        let rows = self.rng.usize(1..30);
        let mut sql = format!(
            "SELECT {all} FROM ({}) {a} ORDER BY {order} LIMIT {rows}",
            input.sql
        );
        if self.one_in(4) {
            sql += &format!(" OFFSET {}", self.rng.usize(1..5));
        }
        Relation {
            sql,
            columns: input.columns,
            rows,
        }
    }

    fn join(&mut self, depth: usize) -> Relation {
        let other = self.rng.usize(0..depth);
        let (left, right) = (self.relation(depth - 1), self.relation(other));
        let (a, b) = (self.name(), self.name());
        let (x, y) = (self.number(&a, &left), self.number(&b, &right));
        let kind = self.pick(&[
            "",
            "",
            "",
            "LEFT",
            "RIGHT",
            "FULL",
            "LEFT SEMI",
            "RIGHT SEMI",
            "LEFT ANTI",
            "RIGHT ANTI",
        ]);
        // Joins without a key give up to all pairs.
        let equal = left.rows * right.rows > 10_000 || !self.one_in(5);
        let mut on = if equal {
            format!("{x} = {y}")
        } else {
            format!("{x} < {y} - {}", self.rng.i64(0..200))
        };
        if self.one_in(4) {
            let (x, y) = (self.number(&a, &left), self.number(&b, &right));
            on += &format!(" AND {x} + {y} > {}", self.rng.i64(-50..100));
        }
        if equal && self.one_in(4) {
            let (x, y) = (self.number(&a, &left), self.number(&b, &right));
            on += &format!(" AND {x} = {y}");
        }
        let mut list = vec![];
        let mut columns = vec![];
        let mut take = |alias: &str, relation: &Relation| {
            for (index, it) in relation.columns.iter().enumerate().take(4) {
                list.push(format!("{alias}.c{index} AS c{}", columns.len()));
                columns.push(*it);
            }
        };
        if kind != "RIGHT SEMI" && kind != "RIGHT ANTI" {
            take(&a, &left);
        }
        if kind != "LEFT SEMI" && kind != "LEFT ANTI" {
            take(&b, &right);
        }
        let rows = match kind {
            "LEFT SEMI" | "LEFT ANTI" => left.rows,
            "RIGHT SEMI" | "RIGHT ANTI" => right.rows,
            _ if equal => left.rows * right.rows / 20 + left.rows + right.rows,
            _ => left.rows * right.rows + left.rows + right.rows,
        };
        let sql = format!(
            "SELECT {} FROM ({}) {a} {kind} JOIN ({}) {b} ON {on}",
            list.join(", "),
            left.sql,
            right.sql
        );
        self.with_a_number(Relation { sql, columns, rows })
    }

    /// Every relation has a column of numbers.
    fn with_a_number(&mut self, relation: Relation) -> Relation {
        if !relation.numbers().is_empty() {
            return relation;
        }
        let a = self.name();
        Self::with_number(&a, relation, &format!("length({a}.c0)"))
    }

    /// `relation` with `number` over its rows, which are `alias`, as one more column.
    fn with_number(alias: &str, relation: Relation, number: &str) -> Relation {
        let n = relation.columns.len();
        let sql = format!(
            "SELECT {}, {number} AS c{n} FROM ({}) {alias}",
            Self::all(alias, &relation),
            relation.sql
        );
        let mut columns = relation.columns;
        columns.push(Number);
        Relation {
            sql,
            columns,
            rows: relation.rows,
        }
    }

    fn aggregate(&mut self, depth: usize) -> Relation {
        let input = self.relation(depth - 1);
        let a = self.name();
        let mut keys = vec![];
        let mut columns = vec![];
        for _ in 0..self.rng.usize(0..3) {
            let column = self.rng.usize(0..input.columns.len());
            keys.push(format!("{a}.c{column}"));
            columns.push(input.columns[column]);
        }
        let mut list: Vec<_> = keys
            .iter()
            .enumerate()
            .map(|(index, key)| format!("{key} AS c{index}"))
            .collect();
        for _ in 0..self.rng.usize(1..4) {
            let number = self.number(&a, &input);
            let function = match self.rng.usize(0..7) {
                0 => "count(*)".to_string(),
                1 => format!("sum({number})"),
                2 | 3 => format!("min({number})"),
                4 | 5 => format!("max({number})"),
                _ => format!("count(DISTINCT {number})"),
            };
            list.push(format!("{function} AS c{}", columns.len()));
            columns.push(Number);
        }
        let mut sql = format!("SELECT {} FROM ({}) {a}", list.join(", "), input.sql);
        let grouped = !keys.is_empty();
        if grouped {
            sql += &format!(" GROUP BY {}", keys.join(", "));
            if self.one_in(4) {
                sql += &format!(" HAVING count(*) > {}", self.rng.usize(1..4));
            }
        }
        Relation {
            sql,
            columns,
            rows: if grouped { input.rows } else { 1 },
        }
    }

    fn window(&mut self, depth: usize) -> Relation {
        let input = self.relation(depth - 1);
        let a = self.name();
        let (x, by) = (self.number(&a, &input), self.number(&a, &input));
        let order = self.order(&a, &input);
        let function = match self.rng.usize(0..6) {
            0 => format!("row_number() OVER (PARTITION BY {by} ORDER BY {order})"),
            1 => format!("sum({x}) OVER (PARTITION BY {by})"),
            2 => format!("rank() OVER (ORDER BY {by})"),
            3 => format!("lag({x}) OVER (ORDER BY {order})"),
            4 => format!("count(*) OVER (PARTITION BY {by} ORDER BY {x})"),
            _ => format!(
                "max({x}) OVER (PARTITION BY {by} ORDER BY {order} \
                 ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
            ),
        };
        Self::with_number(&a, input, &function)
    }

    fn set(&mut self, depth: usize) -> Relation {
        let other = self.rng.usize(0..depth);
        let inputs = [self.relation(depth - 1), self.relation(other)];
        let width = inputs
            .iter()
            .map(|it| it.numbers().len())
            .min()
            .unwrap_or(1);
        let width = self.rng.usize(1..=width);
        let kind = self.pick(&["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"]);
        let sides = inputs.each_ref().map(|input| {
            let a = self.name();
            let list = input.numbers().into_iter().take(width).enumerate();
            let list: Vec<_> = list
                .map(|(index, column)| format!("{a}.c{column} AS c{index}"))
                .collect();
            format!("SELECT {} FROM ({}) {a}", list.join(", "), input.sql)
        });
        let a = self.name();
        let columns = vec![Number; width];
        let rows = inputs[0].rows + inputs[1].rows;
        let [left, right] = sides;
        let inner = Relation {
            sql: format!("({left}) {kind} ({right})"),
            columns,
            rows,
        };
        Relation {
            sql: format!("SELECT {} FROM ({}) {a}", Self::all(&a, &inner), inner.sql),
            ..inner
        }
    }

    /// A filter by a subquery.
    fn subquery(&mut self, depth: usize) -> Relation {
        let other = self.rng.usize(0..depth);
        let (input, inner) = (self.relation(depth - 1), self.relation(other));
        let (a, b) = (self.name(), self.name());
        let (x, y) = (self.number(&a, &input), self.number(&b, &inner));
        let from = format!("FROM ({}) {b}", inner.sql);
        let mut predicate = match self.rng.usize(0..7) {
            0 => format!("{x} IN (SELECT {y} {from})"),
            1 => format!("{x} NOT IN (SELECT {y} {from} WHERE {y} IS NOT NULL)"),
            2 => format!("EXISTS (SELECT 1 {from} WHERE {x} = {y})"),
            3 => format!("NOT EXISTS (SELECT 1 {from} WHERE {x} = {y})"),
            4 => format!("{x} <= (SELECT max({y}) {from})"),
            5 => format!("{x} > (SELECT min({y}) + {} {from})", self.rng.i64(0..20)),
            _ => format!("{x} <> (SELECT count(*) {from})"),
        };
        if self.one_in(4) {
            let column = self.number(&a, &input);
            predicate = format!("{predicate} OR {}", self.predicate(&column, -20, 60));
        }
        let sql = format!(
            "SELECT {} FROM ({}) {a} WHERE {predicate}",
            Self::all(&a, &input),
            input.sql
        );
        Relation { sql, ..input }
    }

    /// A column that a subquery gives a part of.
    fn scalar_columns(&mut self, depth: usize) -> Relation {
        let other = self.rng.usize(0..depth);
        let (input, inner) = (self.relation(depth - 1), self.relation(other));
        let (a, b) = (self.name(), self.name());
        let (x, y) = (self.number(&a, &input), self.number(&b, &inner));
        let function = self.pick(&["max", "min", "count"]);
        let number = format!("{x} + (SELECT {function}({y}) FROM ({}) {b})", inner.sql);
        Self::with_number(&a, input, &number)
    }

    fn project(&mut self, depth: usize) -> Relation {
        let input = self.relation(depth - 1);
        let a = self.name();
        let list: Vec<_> = (0..self.rng.usize(1..4))
            .map(|index| {
                let (x, y) = (self.number(&a, &input), self.number(&a, &input));
                let value = match self.rng.usize(0..6) {
                    0 => x,
                    1 => format!("{x} + {y}"),
                    2 => format!("{x} * 2 + {}", self.rng.i64(-5..5)),
                    3 => format!("CASE WHEN {x} > {y} THEN {x} ELSE 0 END"),
                    4 => format!("coalesce({x}, {y}, -1)"),
                    _ => format!("{x} % 10"),
                };
                format!("{value} AS c{index}")
            })
            .collect();
        let columns = vec![Number; list.len()];
        let mut sql = format!("SELECT {} FROM ({}) {a}", list.join(", "), input.sql);
        if self.one_in(2) {
            let column = self.number(&a, &input);
            sql += &format!(" WHERE {}", self.predicate(&column, -20, 60));
        }
        Relation {
            sql,
            columns,
            rows: input.rows,
        }
    }

    fn distinct(&mut self, depth: usize) -> Relation {
        let input = self.relation(depth - 1);
        let a = self.name();
        let sql = format!(
            "SELECT DISTINCT {} FROM ({}) {a}",
            Self::all(&a, &input),
            input.sql
        );
        Relation { sql, ..input }
    }

    /// Twenty numbers at most: it ends when an iteration adds none.
    fn recursion(&mut self, depth: usize) -> Relation {
        let start = self.relation(depth - 1);
        let step = self.relation(0);
        let (r, a, b) = (self.name(), self.name(), self.name());
        let (x, y) = (self.number(&a, &start), self.number(&b, &step));
        let by = self.rng.i64(1..20);
        let next = format!("({r}.n + {by}) % 20");
        let term = match self.rng.usize(0..3) {
            0 => format!("SELECT {next} FROM {r}"),
            1 => format!(
                "SELECT {next} FROM {r} JOIN ({}) {b} ON {r}.n = {y}",
                step.sql
            ),
            _ => format!(
                "SELECT {next} FROM {r} WHERE {r}.n < (SELECT max({y}) FROM ({}) {b})",
                step.sql
            ),
        };
        let sql = format!(
            "WITH RECURSIVE {r} AS (\
               SELECT abs({x}) % 20 AS n FROM ({}) {a} WHERE {x} IS NOT NULL UNION {term}\
             ) SELECT n AS c0 FROM {r}",
            start.sql
        );
        Relation {
            sql,
            columns: vec![Number],
            rows: 20,
        }
    }
}
