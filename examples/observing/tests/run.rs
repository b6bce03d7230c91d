//! Runs the examples, and checks that their output is as docs/observing.md says.

use std::process::Command;

fn output_of(program: &str) -> String {
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn prometheus_is_shown_calls_waits_and_holds_by_group() {
    let shown = output_of(env!("CARGO_BIN_EXE_prometheus"));
    for line in [
        "# TYPE leasehold_acquires_total counter",
        "leasehold_acquires_total{mode=\"exclusive\",outcome=\"granted\",group=\"invoices\"} 4",
        "leasehold_acquires_total{mode=\"exclusive\",outcome=\"busy\",group=\"invoices\"} 1",
        "leasehold_acquires_total{mode=\"exclusive\",outcome=\"timeout\",group=\"invoices\"} 1",
        "leasehold_held{mode=\"exclusive\",group=\"invoices\"} 1",
        "leasehold_held{mode=\"shared\",group=\"single\"} 1",
        "leasehold_waiting{mode=\"exclusive\",group=\"invoices\"} 0",
        "leasehold_wait_seconds_count{mode=\"exclusive\",group=\"invoices\"} 4",
        "leasehold_hold_seconds_count{mode=\"exclusive\",group=\"invoices\"} 3",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n\nis not in\n\n{shown}");
    }
}

#[test]
fn every_metric_that_is_shown_is_in_the_documentation() {
    let (shown, page) =
        (output_of(env!("CARGO_BIN_EXE_prometheus")), include_str!("../../../docs/observing.md"));
    let metrics = shown.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let metrics: Vec<&str> = metrics.collect();
    assert!(metrics.len() >= 6, "{metrics:?}");
    for metric in metrics {
        assert!(page.contains(&format!("`{metric}`")), "{metric}");
    }
}

/// The counters in those alerts of the page that use `increase`, with their labels.
fn alerts(page: &str) -> Vec<(&str, &str)> {
    let asks = page.split('`').filter_map(|code| {
        let (_, rest) = code.split_once("increase(").or_else(|| code.split_once("rate("))?;
        let (metric, _) = rest.split_once('[')?;
        // An alert about a counter that stops growing (`== 0`) does not count.
        rest.contains("> 0").then(|| metric.split_once('{').unwrap_or((metric, "")))
    });
    asks.filter(|(metric, _)| !metric.contains("bucket")).collect()
}

#[test]
fn what_an_alert_watches_is_shown_with_0_before_it_happens() {
    let shown = output_of(env!("CARGO_BIN_EXE_prometheus"));
    let alerts = alerts(include_str!("../../../docs/observing.md"));
    let of_library = alerts.iter().filter(|(metric, _)| !metric.contains("_serve_"));
    let mut watched = 0;
    for (metric, matchers) in of_library {
        let wanted = |line: &str| {
            let labels = matchers.trim_end_matches('}').split(',').filter(|one| !one.is_empty());
            let mut wanted = labels.map(|one| match one.split_once("!=") {
                Some((label, value)) => !line.contains(&format!("{label}={value}")),
                None => line.contains(one),
            });
            line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(['{', ' ']))
                && wanted.all(|so| so)
        };
        let series: Vec<&str> = shown.lines().filter(|line| wanted(line)).collect();
        assert!(!series.is_empty(), "{metric}{{{matchers} begins with its first event:\n{shown}");
        assert!(series.iter().all(|line| line.ends_with(" 0")), "{series:?}");
        watched += 1;
    }
    assert_eq!(watched, 4, "{alerts:?}");
}

/// The expressions of the rules, without their layout.
fn expressions(rules: &str) -> Vec<String> {
    let mut lines = rules.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let Some(first) = line.trim_start().strip_prefix("expr: ") else { continue };
        let mut words = vec![first.trim_start_matches(">-")];
        while let Some(more) = lines.next_if(|more| first == ">-" && more.starts_with("          "))
        {
            words.push(more.trim());
        }
        found.push(words.join(" ").trim().to_owned());
    }
    found
}

#[test]
fn each_rule_for_prometheus_is_explained_on_the_page() {
    let rules = expressions(include_str!("../../../packaging/prometheus/leasehold.rules.yml"));
    let page = include_str!("../../../docs/observing.md");
    assert!(rules.len() > 10, "{rules:?}");
    for rule in rules {
        assert!(page.contains(&format!("`{rule}`")), "{rule} is not on the page");
    }
}

#[test]
fn each_metric_of_the_dashboard_is_explained_on_a_page() {
    let dashboard = include_str!("../../../packaging/grafana/leasehold.json");
    let pages =
        [include_str!("../../../docs/observing.md"), include_str!("../../../docs/serve.md")];
    let words = dashboard.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let metrics: Vec<&str> = words.filter(|word| word.starts_with("leasehold_")).collect();
    assert!(metrics.len() > 15, "{metrics:?}");
    for metric in metrics {
        let parts = ["_bucket", "_sum", "_count"];
        let name = parts.iter().find_map(|part| metric.strip_suffix(part)).unwrap_or(metric);
        // The page of `serve` names the prefix of its metrics only once.
        let name = name.strip_prefix("leasehold_serve_").unwrap_or(name);
        let is_there = pages.iter().any(|page| page.contains(&format!("`{name}`")));
        assert!(is_there, "{name} is on no page");
    }
}

/// Prometheus itself evaluates the rules, if its `promtool` is installed. At rest no alert fires,
/// and each alert fires when its condition lasts.
#[test]
fn the_rules_for_prometheus_fire_when_they_should_and_only_then() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus");
    let mut promtool = Command::new("promtool");
    promtool.args(["test", "rules", "leasehold.rules.test.yml"]).current_dir(place);
    match promtool.output() {
        Ok(tested) => assert!(tested.status.success(), "{tested:?}"),
        Err(missing) => println!("not tried, promtool is missing: {missing}"),
    }
}

#[test]
fn opentelemetry_is_exported_a_wait_and_a_hold_in_the_trace_of_the_request() {
    let exported = output_of(env!("CARGO_BIN_EXE_opentelemetry"));
    for word in ["charge", "leasehold.acquire", "leasehold.hold", "leasehold.outcome", "granted"] {
        assert!(exported.contains(word), "{word}\n\nis not in\n\n{exported}");
    }
    // These spans are of the request, its wait and its hold; the other two are of the holder before
    // it.
    let value = |line: &str, key: &str| Some(line.trim().strip_prefix(key)?.trim().to_owned());
    let all = |key: &str| exported.lines().filter_map(|line| value(line, key)).collect::<Vec<_>>();
    let (mut names, traces) = (all("Name         :"), all("TraceId      :"));
    names.retain(|name| *name != "\"observing\""); // of the tracer
    let request = names.iter().position(|name| name == "charge").unwrap();
    assert_eq!(traces.iter().filter(|trace| **trace == traces[request]).count(), 3, "{exported}");
}
