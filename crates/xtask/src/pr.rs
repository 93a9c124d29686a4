//! `cargo xtask pr NAME`: a patch as the pull request that it is.

use anyhow::{Result, bail, ensure};

use crate::project::Project;
use crate::proof::Proof;
use crate::series;

#[derive(clap::Args)]
pub struct Args {
    /// The patch: its file name below patches/, without `.patch`.
    name: String,

    /// Print the body alone, for `gh pr create --body-file`.
    #[arg(long)]
    body: bool,
}

pub fn run(project: &Project, args: &Args) -> Result<()> {
    let mut names = Vec::new();
    for (tree, at) in &project.line.tree {
        for patch in series::read(project, tree)? {
            if patch.name() != args.name {
                names.push(format!("  {}", patch.name()));
                continue;
            }
            let message = &patch.message;
            ensure!(
                !message.trailers.is_local(),
                "{} is a local patch, which is not filed",
                args.name
            );
            let branch = patch.name();
            let file = project.patches().join(&patch.path);
            if args.body {
                println!("{}", message.body);
                return Ok(());
            }
            println!("repository: {}", at.repository);
            println!("base:       {}", at.branch);
            println!("branch:     {branch}");
            println!("title:      {}", message.subject);
            println!("issue:      {}", message.trailers.issue);
            println!("forwarded:  {}", message.trailers.forwarded);
            println!("depends on: {}", message.trailers.depends_on.join(", "));
            println!("tested by:  {}", message.trailers.tested_by.join(", "));
            println!("\n{}\n", message.body);
            println!("# To file it. In a clone of your fork of {}:", at.name());
            println!("git fetch upstream");
            println!("git switch -c {branch} upstream/{}", at.branch);
            println!("git am --3way {}", file.display());
            println!("# To try it there:");
            for proof in &message.trailers.tested_by {
                if let Some(command) = Proof::parse(proof)?.command() {
                    println!("{command}");
                }
            }
            println!("# You are the author who answers for it:");
            println!("git commit --amend --no-edit --reset-author");
            println!("git push -u origin {branch}");
            println!("# In this checkout:");
            let body = project.root.join("target/pr-body.md");
            let body = body.display();
            println!("cargo xtask pr {branch} --body > {body}");
            println!("# in the clone:");
            println!(
                "gh pr create --repo {} --base {} --title '{}' --body-file {body}",
                at.repository,
                at.branch,
                message.subject.replace('\'', r"'\''")
            );
            println!("# Then put its address into the trailer `Forwarded:` and export.");
            return Ok(());
        }
    }
    bail!(
        "no patch is called `{}`; there are\n{}",
        args.name,
        names.join("\n")
    )
}
