//! Python interpreters: the one found, and the virtual environments made from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::digest::{sha256, sha256_of_file};
use crate::process;
use crate::project::Project;

/// A virtual environment of this project.
pub struct Venv {
    root: PathBuf,
}

impl Venv {
    fn bin(&self) -> PathBuf {
        self.root
            .join(if cfg!(windows) { "Scripts" } else { "bin" })
    }

    pub fn python(&self) -> PathBuf {
        self.bin().join("python")
    }

    /// One of its programs, which finds the others of this environment first.
    pub fn command(&self, program: &str) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.bin()).chain(std::env::split_paths(&path));
        let mut command = process::command(self.bin().join(program));
        command
            .env("VIRTUAL_ENV", &self.root)
            .env("PATH", std::env::join_paths(path).unwrap_or_default())
            // The checkout holds no compiled files, whatever is imported from it.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env_remove("PYTHONHOME")
            .env_remove("PYTHONPATH");
        command
    }

    /// The folder that its packages are in.
    fn packages(&self) -> Result<PathBuf> {
        let script = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let mut python = self.command("python");
        python.args(["-c", script]);
        let folder = process::text(&mut python, "find the packages of an environment")?;
        Ok(PathBuf::from(folder))
    }

    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let path = self.bin().join(name);
        ensure!(
            path.exists(),
            "{} has no {name}: delete the folder and run this again",
            self.root.display()
        );
        Ok(path)
    }
}

/// maturin and protoc, which PyPI packages carry, at a place that is the same for every
/// checkout: cargo builds anew what it was told another protoc for.
pub fn tools(project: &Project) -> Result<Venv> {
    let requirements = project.root.join("python/requirements/tools.txt");
    let venv = venv(&project.cache.join("tools"), &requirements)?;
    venv.program("maturin")?;
    venv.program("protoc")?;
    Ok(venv)
}

/// The released wheel with all that the tests need beside it.
pub fn stock(project: &Project) -> Result<Venv> {
    kept(project, &format!("stock-{}", project.line.name))
}

/// The same with `wheel` in the released one's place, in an environment of the checkout that
/// has the rest from a kept one.
pub fn patched(project: &Project, wheel: &Path) -> Result<Venv> {
    let common = kept(project, "common")?;
    let venv = Venv {
        root: project.root.join(".venv/patched"),
    };
    let stamp = venv.root.join("wheel.sha256");
    let wanted = format!("{}\n{}", sha256_of_file(wheel)?, common.root.display());
    if is_stamped(&stamp, &wanted) {
        return Ok(venv);
    }
    make(&find()?, &venv, &["--without-pip"])?;
    let also = venv.packages()?.join("common.pth");
    fs::write(&also, common.packages()?.display().to_string())
        .with_context(|| format!("cannot write {}", also.display()))?;
    process::run(
        common
            .command("python")
            .args(["-m", "pip", "--python"])
            .arg(venv.python())
            .args(["install", "--quiet", "--no-deps", "--force-reinstall"])
            .arg("--disable-pip-version-check")
            .arg(wheel),
        "install the patched wheel",
    )?;
    write_stamp(&stamp, &wanted)?;
    Ok(venv)
}

/// The environment of a requirements file, which all checkouts share: another file or
/// interpreter makes another one.
fn kept(project: &Project, name: &str) -> Result<Venv> {
    let file = format!("python/requirements/{name}.txt");
    let requirements = project.root.join(file);
    let key =
        sha256(format!("{}\n{}", find()?.version, digest(&requirements)?).as_bytes());
    let folder = project.cache.join("venvs");
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let _lock = process::lock(&folder.join("lock"), "another `cargo xtask`")?;
    venv(
        &folder.join(format!("{name}-{}", &key[..16])),
        &requirements,
    )
}

/// The environment at `root` with exactly the packages of a requirements file; made anew
/// when the file or the interpreter is another than last time.
fn venv(root: &Path, requirements: &Path) -> Result<Venv> {
    let python = find()?;
    let venv = Venv {
        root: root.to_path_buf(),
    };
    let wanted = format!("{}\n{}", python.version, digest(requirements)?);
    let stamp = root.join("requirements.sha256");
    if is_stamped(&stamp, &wanted) {
        return Ok(venv);
    }
    eprintln!("making {} from {}", root.display(), requirements.display());
    make(&python, &venv, &[])?;
    process::run(
        venv.command("python")
            .args(["-m", "pip", "install", "--quiet"])
            .args(["--disable-pip-version-check", "-r"])
            .arg(requirements),
        "install Python packages",
    )?;
    write_stamp(&stamp, &wanted)?;
    Ok(venv)
}

/// Makes an empty environment in the place of what is there.
fn make(python: &Python, venv: &Venv, args: &[&str]) -> Result<()> {
    if venv.root.exists() {
        fs::remove_dir_all(&venv.root)
            .with_context(|| format!("cannot remove {}", venv.root.display()))?;
    }
    process::stdout(
        process::command(&python.path)
            .args(["-m", "venv"])
            .args(args)
            .arg(&venv.root),
        "make a virtual environment (on Debian: apt-get install python3-venv)",
    )?;
    Ok(())
}

/// Whether what the stamp was written for is in place already.
fn is_stamped(stamp: &Path, wanted: &str) -> bool {
    fs::read_to_string(stamp).is_ok_and(|found| found == wanted)
}

fn write_stamp(stamp: &Path, wanted: &str) -> Result<()> {
    fs::write(stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
}

/// Of a requirements file and those it includes.
fn digest(requirements: &Path) -> Result<String> {
    let text = fs::read_to_string(requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let mut digests = sha256(text.as_bytes());
    for line in text.lines() {
        if let Some(included) = line.strip_prefix("-r ") {
            digests.push('\n');
            digests.push_str(&digest(&requirements.with_file_name(included.trim()))?);
        }
    }
    Ok(digests)
}

struct Python {
    path: PathBuf,
    version: String,
}

/// `$PYTHON`, else `python3`, else `python`: 3.10 or newer.
fn find() -> Result<Python> {
    const FIX: &str = "install Python 3.10 or newer, or name one in $PYTHON";
    let named = std::env::var("PYTHON").ok().filter(|name| !name.is_empty());
    let names = match &named {
        Some(name) => vec![name.as_str()],
        None => vec!["python3", "python"],
    };
    let Some(path) = names.iter().find_map(|name| which::which(name).ok()) else {
        bail!("`{}` was not found on PATH: {FIX}", names.join("` or `"));
    };
    let script =
        "import sys; print(sys.version_info >= (3, 10), sys.base_prefix, sys.version)";
    let answer = process::text(
        process::command(&path).args(["-c", script]),
        "ask Python for its version",
    )?;
    let (recent, version) = answer.split_once(' ').unwrap_or((&answer, ""));
    ensure!(
        recent == "True",
        "{} is too old ({version}): {FIX}",
        path.display()
    );
    Ok(Python {
        path,
        version: version.lines().collect(),
    })
}
