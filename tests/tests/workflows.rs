//! The workflows have no logic: the commands that they run exist, and their own words are right.
#![cfg(test)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn workflows() -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(Path::new(ROOT).join(".github/workflows")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    files.map(|file| (file.clone(), fs::read_to_string(file).unwrap())).collect()
}

fn commands(workflow: &str) -> Vec<&str> {
    let lines = workflow.lines().filter_map(|line| line.trim_start().split_once("run: "));
    lines.map(|(_, command)| command.trim()).collect()
}

#[test]
fn the_words_of_workflows_are_those_of_github() {
    let actionlint = Path::new(ROOT).join("target/mixed/actionlint/actionlint");
    if !actionlint.exists() {
        println!("left out: workflows: tests/peers/install.sh has not installed actionlint");
        return;
    }
    let files: Vec<_> = workflows().into_iter().map(|(file, _)| file).collect();
    let checked = Command::new(&actionlint).args(["-shellcheck="]).args(&files).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    // It would find something there.
    let directory = tempfile::tempdir().unwrap();
    let wrong = directory.path().join("wrong.yml");
    fs::write(&wrong, "on: push\njobs: {a: {runs-on: ubuntu-24.04, step: []}}\n").unwrap();
    assert!(!Command::new(&actionlint).arg(wrong).output().unwrap().status.success());
}

#[test]
fn each_step_is_one_command_that_is_there() {
    let tasks = fs::read_to_string(Path::new(ROOT).join("xtask/src/main.rs")).unwrap();
    let mut tried = 0;
    for (file, workflow) in workflows() {
        let matrix = workflow.lines().filter_map(|line| line.trim().strip_prefix("task: ["));
        let matrix = matrix.flat_map(|list| list.trim_end_matches(']').split(", "));
        let of_matrix = matrix.map(|task| format!("cargo xtask {task}"));
        let typed = commands(&workflow).into_iter().map(str::to_owned);
        for command in typed.chain(of_matrix) {
            let is_one = !["&&", "||", ";", "|"].iter().any(|join| command.contains(join));
            assert!(is_one, "{}: {command}: make it a task", file.display());
            match *command.split(' ').collect::<Vec<_>>() {
                ["cargo", "xtask", "${{", ..] => continue,
                ["cargo", "xtask", task, ..] => {
                    assert!(tasks.contains(&format!("[\"{task}\"")), "{command}: no such task");
                }
                [script, ..] if script.contains('/') => {
                    let mode = fs::metadata(Path::new(ROOT).join(script)).unwrap().permissions();
                    assert_ne!(mode.mode() & 0o111, 0, "{command}: it cannot be run");
                }
                _ => continue,
            }
            tried += 1;
        }
    }
    assert!(tried >= 8, "{tried}");
}
