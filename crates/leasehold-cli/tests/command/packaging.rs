//! The units of systemd that the package brings.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::harness::{Place, ended};

/// Each with the directory of the repository that it is in.
const UNITS: [(&str, &str); 4] = [
    ("packaging", "leasehold-elect@.service"),
    ("packaging", "leasehold-serve.service"),
    ("packaging/examples", "nightly-report.service"),
    ("packaging/examples", "nightly-report.timer"),
];

fn text(directory: &str, unit: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(directory).join(unit)).unwrap()
}

/// What a unit starts, as the arguments of the program, with something in the place of variables.
fn arguments(directory: &str, unit: &str) -> Option<Vec<String>> {
    let text = text(directory, unit);
    let start = text.lines().find_map(|line| line.strip_prefix("ExecStart="))?;
    let words = start.strip_prefix("/usr/bin/leasehold ")?.split(' ');
    let filled = words.map(|word| match word {
        "%i" => "scheduler",
        "${VALUE}" => "here",
        "$CMD" => "true",
        word => word,
    });
    Some(filled.map(str::to_owned).collect())
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units_of_the_package() {
    let place = Place::on_file();
    let [programs, units] =
        ["tree/usr/bin", "tree/usr/lib/systemd/system"].map(|of| place.path(of));
    for directory in [&programs, &units] {
        fs::create_dir_all(directory).unwrap();
    }
    for program in ["leasehold", "true"] {
        fs::write(programs.join(program), "#!/bin/sh\n").unwrap();
        fs::set_permissions(programs.join(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (directory, unit) in UNITS {
        fs::write(units.join(unit), text(directory, unit)).unwrap();
    }
    for (_, unit) in UNITS {
        let unit = unit.replace("@.", "@name.");
        let verify = format!(
            "! command -v systemd-analyze > /dev/null || \
             systemd-analyze verify --man=no --recursive-errors=no --root=tree {unit} 2>&1"
        );
        let verified = ended(place.program("sh", &["-c", &verify]));
        assert_eq!((verified.code, verified.stdout.as_str()), (Some(0), ""), "{unit}");
    }
}

#[test]
fn a_service_that_is_to_run_for_ever_is_started_again_however_often_it_ends() {
    for (directory, unit) in UNITS {
        let text = text(directory, unit);
        let has = |line: &str| text.lines().any(|of_unit| of_unit == line);
        if text.lines().any(|line| line.starts_with("Restart=")) {
            let (head, _) = text.split_once("[Service]").unwrap();
            assert!(head.lines().any(|line| line == "StartLimitIntervalSec=0"), "{unit}");
            assert!(has("RestartSec=5s"), "{unit}");
        }
    }
}

#[test]
fn the_program_takes_the_commands_of_its_units() {
    let place = Place::on_file();
    for (directory, unit) in UNITS {
        let Some(mut arguments) = arguments(directory, unit) else { continue };
        if arguments[0] == "serve" {
            arguments.push("--help".to_owned()); // it would go on for ever
        }
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let done = place.end(&words);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{unit}: {words:?}");
    }
}
