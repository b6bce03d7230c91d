//! The scripts of `examples/redisson`, together with a program in Java, if it was built.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use leasehold_testkit::redisson_peer;

use crate::harness::{Background, Place, ended};

const NAME: &str = "jobs/nightly";

/// The workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// One of the scripts.
fn script(place: &Place, name: &str, arguments: &[&str]) -> Command {
    place.script(&Path::new(ROOT).join("examples/redisson").join(name), arguments)
}

#[test]
fn a_service_in_java_is_kept_out_while_a_migration_runs_and_shown_in_its_mode() {
    let place = Place::on_redis_with("layout=redisson");
    let port = place.server.as_ref().unwrap().port();
    let service = redisson_peer(&format!("one,{port}"), NAME, Duration::from_secs(3));
    let Some(mut service) = service else { return };
    service.ask("acquire lock 0", "acquired");
    let command = ["sh", "-c", "echo migrates; cat"];
    let migration = script(&place, "migrate_alone.sh", &[&[NAME][..], &command].concat());
    let mut migration = Background::fed(migration);
    let shown = place.end(&["show", NAME]).stdout;
    assert!(shown.contains("another program") && shown.contains("Redisson node"), "{shown}");
    place.end(&["run", NAME, "--no-wait", "--", "true"]).assert_failed(75, "a program other than");
    service.ask("release", "released");
    assert_eq!(migration.line(), "migrates");
    assert_eq!(place.show(NAME)["holders"][0]["label"], "migration");
    assert!(place.end(&["ls"]).stdout.contains(NAME));
    service.ask("try lock", "busy");
    service.tell("acquire lock 0");
    migration.close_stdin();
    service.expect("acquired");
    service.ask("release", "released");
    for (kind, mode, letter) in [("read", "shared", "r"), ("write", "exclusive", "w")] {
        service.ask(&format!("acquire {kind} 0"), "acquired");
        let shown = place.end(&["show", NAME]).stdout;
        assert!(shown.contains(&format!("another program  {mode} ")), "{shown}");
        assert_eq!(place.show(NAME)["foreign"]["mode"], mode);
        let listed = place.end(&["ls"]).stdout;
        assert!(listed.contains(&format!("{NAME}  {letter} ")), "{listed}");
        service.ask("release", "released");
    }
}

#[test]
fn who_holds_both_layouts_keeps_out_those_who_know_one_of_them() {
    let place = Place::on_redis_with("layout=redisson");
    let new = place.server.as_ref().unwrap().patient_url();
    let arguments = [NAME, "sh", "-c", "echo both; cat"];
    let mut both = script(&place, "both_layouts.sh", &arguments);
    both.env("OLD", &place.url).env("NEW", &new);
    let mut both = Background::fed(both);
    assert_eq!(both.line(), "both");
    let run =
        |url: &str| ended(place.leasehold(&["run", NAME, "-n", "-q", "-s", url, "--", "true"]));
    for url in [&place.url, &new] {
        assert_eq!(run(url).code, Some(75), "{url}");
    }
    both.close_stdin();
    let waits = ["run", NAME, "--wait", "1m", "-q", "--", "true"];
    assert_eq!(place.end(&waits).code, Some(0));
    assert_eq!(run(&new).code, Some(0));
}
