//! Servers that take over from each other: how far their clocks are apart, held against how far
//! they may be.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::text::show_duration;
use tokio::time::timeout;

use super::dial::Dialer;
use super::look::Offset;
use super::url::{Address, Settings};
use crate::store::Finding;

/// The clock of a server, by this machine's.
#[derive(Clone, Debug)]
pub(super) struct ServerClock {
    pub(super) server: String,
    pub(super) offset: Offset,
}

/// Reads the clocks of servers, all at the same time. Those that do not answer within the time of a
/// request are left out.
pub(super) async fn read(settings: &Settings, servers: &[Address]) -> Vec<ServerClock> {
    let Ok(dialer) = Dialer::new(settings) else { return Vec::new() };
    let limit = settings.timeout();
    let each = servers.iter().map(|address| async {
        let reading = async {
            let link = dialer.dial(address, None).await.ok()?;
            let offset = Offset::of(&link, limit).await.ok()??;
            Some(ServerClock { server: link.server().to_owned(), offset })
        };
        timeout(limit, reading).await.ok()?
    });
    join_all(each).await.into_iter().flatten().collect()
}

/// What it means that clocks are apart of which any may follow any other, if that is not fine: the
/// two that are furthest.
pub(super) fn trouble(clocks: &[ServerClock], allowed: Duration) -> Option<Finding> {
    let (behind, ahead) = extremes(clocks)?;
    let apart = apart(behind, ahead);
    let far = show_duration(Duration::from_secs_f64(apart.ahead));
    let found = format!("its clock is {far} ahead of that of {}", behind.server);
    let (place, topic, limit) = (&ahead.server, "clock", show_duration(allowed));
    let remedy = "run NTP on both; until then give a larger offset= in every store URL";
    if apart.exceeds(allowed) {
        let found = format!("{found}, and offset= allows {limit}");
        let risk = "when it takes over, leases end early by as much, and two may hold one lock";
        Some(Finding::danger(place, topic, found, risk, remedy))
    } else if apart.exceeds(allowed / 2) {
        let found = format!("{found}, more than half of what offset= allows ({limit})");
        let risk = "if they drift further apart, leases end early when it takes over";
        Some(Finding::warning(place, topic, found, risk, remedy))
    } else {
        None
    }
}

/// The same, also if it is fine; nothing where there are no two clocks.
pub(super) fn finding(clocks: &[ServerClock], allowed: Duration) -> Option<Finding> {
    let (behind, ahead) = extremes(clocks).filter(|_| clocks.len() > 1)?;
    let fine = || {
        let far = show_duration(Duration::from_secs_f64(apart(behind, ahead).ahead));
        let (count, limit) = (clocks.len(), show_duration(allowed));
        let found = format!(
            "the clocks of {count} servers that take over from each other are within {far}, and \
             offset= allows {limit}"
        );
        Finding::ok(&behind.server, "clock", found)
    };
    Some(trouble(clocks, allowed).unwrap_or_else(fine))
}

fn extremes(clocks: &[ServerClock]) -> Option<(&ServerClock, &ServerClock)> {
    let by_time =
        |one: &&ServerClock, other: &&ServerClock| one.offset.ahead.total_cmp(&other.offset.ahead);
    Some((clocks.iter().min_by(by_time)?, clocks.iter().max_by(by_time)?))
}

fn apart(behind: &ServerClock, ahead: &ServerClock) -> Offset {
    let (of_one, of_other) = (ahead.offset, behind.offset);
    Offset { ahead: of_one.ahead - of_other.ahead, error: of_one.error + of_other.error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    #[test]
    fn clocks_further_apart_than_offset_are_a_danger_and_from_half_of_it_a_warning() {
        let clock = |(server, ahead): (&str, f64)| ServerClock {
            server: server.to_owned(),
            offset: Offset { ahead, error: 0.001 },
        };
        let told = |clocks: &[(&str, f64)]| {
            let clocks: Vec<_> = clocks.iter().copied().map(clock).collect();
            let finding = finding(&clocks, Duration::from_millis(500))?;
            Some((finding.level, finding.to_string()))
        };
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[("a:1", 7.0)]), None, "it has nobody to follow");
        let (level, words) = told(&[("a:1", 7.0), ("b:1", 7.2)]).unwrap();
        assert!(level == Level::Ok && words.contains("within 200ms"), "{words}");
        let (level, words) = told(&[("a:1", 0.0), ("b:1", -0.3), ("c:1", 0.1)]).unwrap();
        assert!(level == Level::Warning && words.starts_with("c:1: its clock is 400ms"), "{words}");
        let (level, words) = told(&[("a:1", 9.0), ("b:1", 8.0)]).unwrap();
        assert!(level == Level::Danger && words.contains("that of b:1"), "{words}");
    }
}
