//! Runs the examples: what they show is what docs/observing.md says of it.

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

/// The counters in the alerts of the page that ask for an increase, with their labels.
fn alerts(page: &str) -> Vec<(&str, &str)> {
    let asks = page.split('`').filter_map(|code| {
        let (_, rest) = code.split_once("increase(").or_else(|| code.split_once("rate("))?;
        let (metric, _) = rest.split_once('[')?;
        Some(metric.split_once('{').unwrap_or((metric, "")))
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
    assert!(watched >= 5, "{alerts:?}");
}

#[test]
fn opentelemetry_is_exported_a_wait_and_a_hold_in_the_trace_of_the_request() {
    let exported = output_of(env!("CARGO_BIN_EXE_opentelemetry"));
    for word in ["charge", "leasehold.acquire", "leasehold.hold", "leasehold.outcome", "granted"] {
        assert!(exported.contains(word), "{word}\n\nis not in\n\n{exported}");
    }
    // Of the request, of its wait and of its hold; the other two are of the holder before it.
    let value = |line: &str, key: &str| Some(line.trim().strip_prefix(key)?.trim().to_owned());
    let all = |key: &str| exported.lines().filter_map(|line| value(line, key)).collect::<Vec<_>>();
    let (mut names, traces) = (all("Name         :"), all("TraceId      :"));
    names.retain(|name| *name != "\"observing\""); // of the tracer
    let request = names.iter().position(|name| name == "charge").unwrap();
    assert_eq!(traces.iter().filter(|trace| **trace == traces[request]).count(), 3, "{exported}");
}
