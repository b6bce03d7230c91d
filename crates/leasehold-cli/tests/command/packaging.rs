//! The systemd units of the package.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use leasehold_testkit::RedisServer;

use crate::harness::{Place, ended};

/// Each unit with its directory in the repository.
const UNITS: [(&str, &str); 4] = [
    ("packaging", "leasehold-elect@.service"),
    ("packaging", "leasehold-serve.service"),
    ("packaging/examples", "nightly-report.service"),
    ("packaging/examples", "nightly-report.timer"),
];

/// The drop-in that gives a unit a password.
const PASSWORD: (&str, &str) = ("packaging/examples", "password.conf");

fn text(directory: &str, unit: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(directory).join(unit)).unwrap()
}

/// The command that a unit starts, as the program's arguments, with values for its variables.
fn arguments(directory: &str, unit: &str) -> Option<Vec<String>> {
    let text = text(directory, unit);
    let start = text.lines().find_map(|line| line.strip_prefix("ExecStart="))?;
    let words = start.strip_prefix("leasehold ")?.split(' ');
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
        if unit.ends_with(".service") {
            let beside = units.join(format!("{unit}.d"));
            fs::create_dir(&beside).unwrap();
            fs::write(beside.join(PASSWORD.1), text(PASSWORD.0, PASSWORD.1)).unwrap();
        }
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

#[test]
fn no_service_runs_as_root_and_the_one_that_listens_is_locked_up() {
    for (directory, unit) in UNITS.into_iter().filter(|(_, unit)| unit.ends_with(".service")) {
        assert!(text(directory, unit).lines().any(|line| line == "DynamicUser=yes"), "{unit}");
    }
    let place = Place::on_file();
    fs::write(place.path("leasehold-serve.service"), text("packaging", "leasehold-serve.service"))
        .unwrap();
    // From 0 to 100: what an intruder in the service could do to the system.
    let rate = "! systemd-analyze security --help 2>&1 | grep -q -e --offline || \
                systemd-analyze security --offline=yes --threshold=20 ./leasehold-serve.service";
    let rated = ended(place.program("sh", &["-c", rate]));
    assert_eq!(rated.code, Some(0), "{rated:?}");
}

#[test]
fn a_password_reaches_the_program_as_a_file_that_systemd_gives_it() {
    let server = RedisServer::options().password("guess").start().unwrap();
    let mut place = Place::on_file();
    place.url = server.url();
    let drop_in = text(PASSWORD.0, PASSWORD.1);
    let line = |begin: &str| drop_in.lines().find_map(|line| line.strip_prefix(begin)).unwrap();
    let (credential, file) = line("LoadCredential=").split_once(':').unwrap();
    assert!(file.starts_with("/etc/leasehold/"));
    let (variable, path) = line("Environment=").split_once('=').unwrap();
    fs::write(place.path(credential), "guess\n").unwrap();
    let path = path.replace("%d", place.directory.path().to_str().unwrap());
    let mut run = place.leasehold(&["run", "x", "-n", "--", "sh", "-c", "env"]);
    let ran = ended({
        run.env(variable, path);
        run
    });
    ran.assert_silent(0);
    assert!(!ran.stdout.contains("guess"), "{ran:?}");
}
