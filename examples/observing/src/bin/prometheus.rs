//! Prints the metrics that Prometheus would scrape from a service that has used some locks.
//!
//! A service serves this text under `/metrics`. With the feature `http-listener` of the exporter,
//! `PrometheusBuilder::install` does that.

use std::error::Error;
use std::time::Duration;

use leasehold::Client;
use leasehold::event::MetricsObserver;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

/// Bounds of the buckets in seconds: from a round trip to a wait about which somebody complains.
const BUCKETS: [f64; 9] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0, 60.0];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The exporter is installed first: earlier records would be lost.
    let prometheus = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS)?
        .install_recorder()?;

    let observer = MetricsObserver::new()
        .group_by(|name| name.as_str().split_once('/').map_or("single", |(group, _)| group));
    let client = Client::builder().url("memory:").observer(observer).build().await?;

    for number in 0..3 {
        client.mutex(format!("invoices/{number}")).acquire().await?.release().await?;
    }
    let held = client.mutex("invoices/7").acquire().await?;
    client.mutex("invoices/7").try_acquire().await?; // busy
    let limit = Duration::from_millis(20);
    drop(client.mutex("invoices/7").acquire_within(limit).await); // a timeout
    let reading = client.rwlock("nightly-report").read().acquire().await?;

    print!("{}", prometheus.render());
    reading.release().await?;
    held.release().await?;
    Ok(())
}
