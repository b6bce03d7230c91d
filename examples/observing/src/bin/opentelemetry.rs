//! Exports the trace of a request that waits for a lock and holds it, with OpenTelemetry.
//!
//! This exporter prints. In a service, use an exporter that sends to a collector.

use std::error::Error;
use std::time::Duration;

use leasehold::Client;
use leasehold::event::TracingObserver;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(opentelemetry_stdout::SpanExporter::default())
        .build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("observing"));
    tracing_subscriber::registry().with(spans).init();

    let observer = TracingObserver::new();
    let client = Client::builder().url("memory:").observer(observer).build().await?;
    let before = client.mutex("invoices/42").acquire().await?;
    let (charged, released) = tokio::join!(charge(&client), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        before.release().await
    });
    charged?;
    released?;
    provider.shutdown()?;
    Ok(())
}

/// A request: its trace shows how long it waited and how long it held.
#[tracing::instrument(skip_all)]
async fn charge(client: &Client) -> leasehold::Result<()> {
    let guard = client.mutex("invoices/42").label("charge").acquire().await?;
    tokio::time::sleep(Duration::from_millis(5)).await;
    guard.release().await
}
