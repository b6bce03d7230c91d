//! The scripts of `docs/recipes.md` and `docs/testing-your-code.md`, exactly as they are there.

use std::fs;
use std::path::{Path, PathBuf};

use leasehold_testkit::Postgres;

use crate::harness::{Background, Place, ended, until};

const RECIPES: &str = include_str!("../../../../docs/recipes.md");
const TESTING: &str = include_str!("../../../../docs/testing-your-code.md");

/// The first block of this language in a section of a page.
fn block(page: &str, section: &str, language: &str) -> String {
    let found = page.split("\n## ").find_map(|part| part.strip_prefix(section));
    let section = found.unwrap_or_else(|| panic!("there is no section {section:?}"));
    let mut opened = section.split("\n```").filter_map(|rest| rest.split_once('\n'));
    let block = opened.find_map(|(info, text)| info.starts_with(language).then_some(text));
    block.unwrap_or_else(|| panic!("no {language} in it: {section}")).to_owned()
}

fn recipe(place: &Place, section: &str, name: &str) -> PathBuf {
    let script = block(RECIPES, section, "sh");
    assert!(script.contains(name), "the script says what it is called: {script}");
    place.write_script(name, &script)
}

fn lines(place: &Place, file: &str) -> Vec<String> {
    place.read(file).lines().map(str::to_owned).collect()
}

on_each_store!(
    one_instance_migrates_and_all_serve_afterwards,
    a_nightly_job_that_all_machines_start_runs_once,
    a_nightly_job_that_did_not_run_or_was_ended_is_told,
    workers_of_all_machines_together_never_exceed_the_permits,
    a_script_tests_what_a_job_does_when_it_is_skipped_and_when_it_is_revoked,
);

fn one_instance_migrates_and_all_serve_afterwards(place: &Place) {
    let start = recipe(place, "Migrate once at start-up", "start.sh");
    // `mkdir` fails if another process is at work.
    let migrate = "#!/bin/sh\n[ -e done ] && exit 0\nmkdir busy || exit 9\n\
                   sleep 0.1\necho migrated >>log\nrmdir busy\ntouch done\n";
    place.write_script("migrate.sh", migrate);
    place.write_script("serve.sh", "#!/bin/sh\necho serves >>log\n");
    let instances = [(); 3].map(|()| Background::start(place.script(&start, &[])));
    for instance in instances {
        instance.end().assert_ended(0);
    }
    assert_eq!(lines(place, "log"), ["migrated", "serves", "serves", "serves"]);
}

fn a_nightly_job_that_all_machines_start_runs_once(place: &Place) {
    let nightly = recipe(place, "A nightly job on one machine", "nightly.sh");
    place.write_script("report.sh", "#!/bin/sh\necho reported >>log\n");
    let machines = [(); 3].map(|()| Background::start(place.script(&nightly, &[])));
    for machine in machines {
        machine.end().assert_silent(0);
    }
    // A machine whose clock is late.
    ended(place.script(&nightly, &[])).assert_silent(0);
    assert_eq!(lines(place, "log"), ["reported"]);
}

fn a_nightly_job_that_did_not_run_or_was_ended_is_told(place: &Place) {
    let section = "Alert when a nightly job did not run";
    let check = recipe(place, section, "nightly-ran.sh");
    let told = |check: &Path| {
        let told = ended(place.script(check, &[]));
        assert_eq!(told.code, Some(1), "{told:?}");
        assert!(told.stderr.contains("has not succeeded in the last 26 h"), "{told:?}");
    };
    told(&check);
    let _holder = place.holder("nightly-report", &[]);
    let token = place.token("nightly-report").unwrap();
    place.end(&["revoke", "nightly-report", &token, "--force"]);
    assert!(place.show("nightly-report")["last"].is_null(), "it was not released");
    told(&check);
    let crontab = block(RECIPES, section, "text");
    let job = crontab.lines().find_map(|line| line.strip_prefix("0 3 * * * app ")).unwrap();
    let cron = place.write_script("cron.sh", &format!("#!/bin/sh\nexec {job}\n"));
    place.write_script("report.sh", "#!/bin/sh\necho reported >>log\n");
    ended(place.script(&cron, &[])).assert_silent(0);
    ended(place.script(&check, &[])).assert_silent(0);
    assert_eq!(lines(place, "log"), ["reported"]);
    if let Some(server) = &place.server {
        let left_ms: u64 = server.command("PTTL lh:{nightly-report}:d").unwrap();
        assert!(left_ms > 39 * 3_600_000, "{left_ms}");
    }
    let strict = fs::read_to_string(&check).unwrap().replace("-gt 93600", "-ge 0");
    told(&place.write_script("strict.sh", &strict));
}

fn workers_of_all_machines_together_never_exceed_the_permits(place: &Place) {
    let convert_all = recipe(place, "A pool of workers across machines", "convert-all.sh");
    // Each process notes how many work at the same time.
    let convert = "#!/bin/sh\n[ -e \"$1.done\" ] && exit 0\ntouch \"$1.busy\"\n\
                   busy=$(ls *.busy | wc -l)\necho \"$busy\" >>log\nsleep 0.2\n\
                   rm \"$1.busy\"\ntouch \"$1.done\"\n";
    place.write_script("convert.sh", convert);
    let files: Vec<String> = (0..6).map(|number| format!("file{number}")).collect();
    // Six machines, each of which begins with another file.
    let machines = (0..6).map(|first| {
        let order = (0..6).map(|next| files[(first + next) % 6].as_str());
        Background::start(place.script(&convert_all, &order.collect::<Vec<_>>()))
    });
    for machine in machines.collect::<Vec<_>>() {
        machine.end().assert_ended(0);
    }
    let busy: Vec<usize> = lines(place, "log").iter().map(|line| line.parse().unwrap()).collect();
    assert_eq!(busy.len(), 6, "each file once: {busy:?}");
    assert!(busy.iter().all(|busy| *busy <= 4), "{busy:?}");
}

fn a_script_tests_what_a_job_does_when_it_is_skipped_and_when_it_is_revoked(place: &Place) {
    place.write_script("report.sh", "#!/bin/sh\necho reported >>log\n");
    // The script makes a new file store; the test replaces it by this one.
    let script = block(TESTING, "Scripts", "sh");
    let own = script.lines().filter(|line| !line.starts_with("export LEASEHOLD_STORE="));
    let script = format!("#!/bin/sh\nset -e\n{}\n", own.collect::<Vec<_>>().join("\n"));
    let tested = ended(place.script(&place.write_script("test.sh", &script), &[]));
    tested.assert_ended(0);
    assert_eq!(place.read("log"), "", "it was skipped");
    assert_eq!(place.show("report")["holders"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_row_in_postgresql_refuses_a_holder_that_was_overtaken() {
    let Some(postgres) = Postgres::start().unwrap() else {
        println!("skipped: PostgreSQL is not installed: `cargo xtask test` does that");
        return;
    };
    let section = "Fencing in PostgreSQL";
    postgres.query("CREATE TABLE invoice (id int PRIMARY KEY, charged bool)").unwrap();
    postgres.query(&block(RECIPES, section, "sql")).unwrap();
    postgres.query("INSERT INTO invoice VALUES (42, false)").unwrap();

    let place = Place::on_file();
    recipe(&place, section, "charge.sh");
    // A process that is delayed between the lock and the database.
    let late = place.write_script("late.sh", "#!/bin/sh\necho held\nread go\n./charge.sh 42\n");
    let late = late.to_string_lossy();
    let run = |script: &str| {
        let mut command = place.leasehold(&["run", "invoices/42", "--", script]);
        command.args(["42"]).envs(postgres.environment());
        command
    };
    let mut first = Background::fed(run(&late));
    assert_eq!(first.line(), "held");
    let token: u64 = place.token("invoices/42").unwrap().parse().unwrap();
    let mut overtaken = place.program("./charge.sh", &["42"]);
    overtaken.env("LEASEHOLD_TOKEN", token.to_string()).envs(postgres.environment());
    // Its machine dies, and another process charges.
    drop(first);
    until("its lease has ended", || place.token("invoices/42").is_none());
    ended(run("./charge.sh")).assert_silent(0);
    let charged = || postgres.query("SELECT charged, fence FROM invoice WHERE id = 42").unwrap();
    let before = charged();
    let newest: u64 = before.trim().strip_prefix("t|").unwrap().parse().unwrap();
    assert!(newest > token, "{before}");

    let refused = ended(overtaken);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.starts_with("overtaken: "), "{refused:?}");
    assert_eq!(charged(), before);

    // Neighbouring numbers of this size are equal as floating-point numbers.
    let mut next = place.program("./charge.sh", &["42"]);
    next.env("LEASEHOLD_TOKEN", (newest - 1).to_string()).envs(postgres.environment());
    assert!(newest > 1 << 53);
    assert_eq!(ended(next).code, Some(1));
}
