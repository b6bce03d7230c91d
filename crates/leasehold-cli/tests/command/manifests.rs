//! The manifests for Kubernetes and the compose file: their words are those of these interfaces,
//! and the program accepts the commands in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Place, ended};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A Python with `kubernetes-validate` and its YAML parser.
const PYTHON: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mixed/kubernetes/bin/python");

const TO_JSON: &str = "import json, sys, yaml
print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";

/// Whether this Python is there; says so if not.
fn is_there() -> bool {
    let is_there = Path::new(PYTHON).exists();
    if !is_there {
        println!("left out: manifests: tests/peers/install.sh has not installed their schemas");
    }
    is_there
}

fn manifests() -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(ROOT).join("packaging/kubernetes")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "yaml")).collect()
}

fn documents(file: &Path) -> Vec<Value> {
    let mut python = Command::new(PYTHON);
    python.args(["-c", TO_JSON]).arg(file);
    let read = ended(python);
    read.assert_silent(0);
    serde_json::from_str(&read.stdout).unwrap()
}

/// The words of each command of leasehold in a document.
fn commands(document: &Value) -> Vec<Vec<String>> {
    let words = |of: &Value| -> Vec<String> {
        let words = of.as_array().into_iter().flatten();
        words.map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut found = Vec::new();
    match document {
        Value::Object(fields) => {
            let all = ["command", "args"].map(|field| words(&document[field])).concat();
            let begin = all.first().map(String::as_str);
            match begin {
                Some("leasehold") => found.push(all[1..].to_vec()),
                Some("elect" | "run" | "serve") => found.push(all),
                _ => found.extend(fields.values().flat_map(commands)),
            }
        }
        Value::Array(items) => found.extend(items.iter().flat_map(commands)),
        _ => {}
    }
    found
}

#[test]
fn manifests_have_only_the_words_of_kubernetes() {
    if !is_there() {
        return;
    }
    let mut validate = Command::new(Path::new(PYTHON).with_file_name("kubernetes-validate"));
    validate.arg("--strict").args(manifests());
    let validated = ended(validate);
    assert_eq!(validated.code, Some(0), "{validated:?}");
    let wrong = Place::on_file();
    let text = fs::read_to_string(&manifests()[0]).unwrap();
    let file = wrong.write_script("wrong.yaml", &text.replacen("metadata:", "metdata:", 1));
    let mut validate = Command::new(Path::new(PYTHON).with_file_name("kubernetes-validate"));
    assert_ne!(
        ended({
            validate.arg("--strict").arg(file);
            validate
        })
        .code,
        Some(0)
    );
}

#[test]
fn the_program_takes_the_commands_of_manifests_and_of_the_compose_file() {
    if !is_there() {
        return;
    }
    let files = [manifests(), vec![Path::new(ROOT).join("compose.yaml")]].concat();
    let mut kinds: Vec<String> = Vec::new();
    for file in files {
        for command in documents(&file).iter().flat_map(commands) {
            kinds.push(command[0].clone());
            let place = Place::on_file();
            // The words after `--` are a command of another image.
            let own = command.iter().take_while(|word| *word != "--");
            let mut words: Vec<String> =
                own.map(|word| word.replace("$(POD_NAME)", "pod")).collect();
            let ready = format!("--ready-file={}", place.path("ready").display());
            for word in words.iter_mut().filter(|word| word.starts_with("--ready-file=")) {
                word.clone_from(&ready);
            }
            match command[0].as_str() {
                "serve" => words.push("--help".to_owned()), // it would go on for ever
                _ => words.extend(["--", "true"].map(str::to_owned)),
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let done = place.end(&words);
            let said = (done.code, done.stderr.as_str());
            assert_eq!(said, (Some(0), ""), "{}: {words:?}", file.display());
        }
    }
    kinds.sort();
    assert_eq!(kinds, ["elect", "elect", "elect", "run", "run", "serve"]);
}
