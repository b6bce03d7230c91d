//! What would break a promise: every server of a store is looked at, and what is found is said in
//! words.

mod boot;
mod fleet;
mod replication;
mod rights;
mod server;

use futures_util::future::join_all;
use leasehold_core::StoreError;

use self::server::Seen;
use super::dial::Dialer;
use super::plain;
use super::route::Route;
use super::url::{Address, Format, Place as Servers, Settings};
use crate::store::Finding;

/// Looks at every server that a URL leads to.
///
/// # Errors
///
/// When not one of them can be looked at.
pub(super) async fn examine(url: &str) -> leasehold_core::Result<Vec<Finding>> {
    let settings = Settings::parse(url)?;
    let dialer = Dialer::new(&settings)?;
    let mut findings: Vec<Finding> = layout(&settings).into_iter().collect();
    let (seen, missing) = match &settings.place {
        Servers::One(address) => {
            look_at_all(&settings, &dialer, std::slice::from_ref(address)).await
        }
        Servers::Quorum(nodes) => {
            let found = look_at_all(&settings, &dialer, nodes).await;
            findings.extend(fleet::quorum(&settings, &found.0, nodes.len()));
            found
        }
        Servers::Cluster(_) | Servers::Sentinel { .. } => {
            let (addresses, missing) = primaries(&settings).await?;
            let (seen, gone) = look_at_all(&settings, &dialer, &addresses).await;
            (seen, missing.into_iter().chain(gone).collect())
        }
    };
    if let ([], [error, ..]) = (&seen[..], &missing[..]) {
        return Err(error.clone().into());
    }
    findings.extend(missing.iter().map(unreachable));
    if let Servers::Sentinel { sentinels, service } = &settings.place {
        findings.extend(fleet::sentinels(&settings, sentinels, service).await?);
    }
    for primary in &seen {
        findings.extend(primary.findings(&settings));
        findings.extend(replicas(&settings, &dialer, primary).await);
    }
    Ok(findings)
}

/// Whether the other programs will find the keys.
fn layout(settings: &Settings) -> Option<Finding> {
    let is_bare = settings.format == Format::Plain && settings.prefix.is_none();
    is_bare.then(|| {
        let note = plain::keys_note(settings.prefix());
        let (found, remedy) = note.split_once(": ").unwrap_or((&note, ""));
        let risk = "programs that write their keys otherwise are not excluded";
        Finding::warning(&settings.place.to_string(), "layout", found, risk, remedy)
    })
}

/// Looks at servers, all at the same time: what was seen, and why others were not.
async fn look_at_all(
    settings: &Settings,
    dialer: &Dialer,
    addresses: &[Address],
) -> (Vec<Seen>, Vec<StoreError>) {
    let looking = addresses.iter().map(|address| Seen::look(settings, dialer, address));
    let (mut seen, mut missing) = (Vec::new(), Vec::new());
    for outcome in join_all(looking).await {
        match outcome {
            Ok(found) => seen.push(found),
            Err(error) => missing.push(error),
        }
    }
    (seen, missing)
}

/// The primaries that sentinels or a cluster name now.
async fn primaries(settings: &Settings) -> leasehold_core::Result<(Vec<Address>, Vec<StoreError>)> {
    let (mut addresses, mut missing) = (Vec::new(), Vec::new());
    for link in Route::new(settings)?.primaries().await? {
        match link {
            Ok(link) => addresses.push(link.address().clone()),
            Err(error) => missing.push(error),
        }
    }
    Ok((addresses, missing))
}

/// What the replicas of a primary would be as primaries.
async fn replicas(settings: &Settings, dialer: &Dialer, primary: &Seen) -> Vec<Finding> {
    let followers = primary.followers();
    let addresses: Vec<Address> = followers.into_iter().map(|follower| follower.address).collect();
    let (seen, missing) = look_at_all(settings, dialer, &addresses).await;
    let seen = seen.iter().flat_map(|replica| replica.findings_as_replica(settings, primary));
    seen.chain(missing.iter().map(|error| {
        Finding::warning(
            &primary.server,
            "replicas",
            format!("a replica cannot be looked at from here ({error})"),
            "nothing is known of its settings, which are those of the primary after a failover",
            "run doctor where it can be reached",
        )
    }))
    .collect()
}

fn unreachable(error: &StoreError) -> Finding {
    let text = error.to_string();
    let (place, why) = text.split_once(": ").unwrap_or(("the store", &text));
    Finding::danger(
        place,
        "reachable",
        why.to_owned(),
        "what lives there cannot be locked, and one more failure may stop the rest",
        "start it, or take it out of the store URL everywhere",
    )
}
