//! Checks that a job that has reported its end was not started again in its period.

use super::story::{Story, Violation};

/// The assumed difference between the rates of clocks: a hundredth.
const DRIFT: u64 = 100;

pub(super) fn violations(story: &Story) -> Vec<Violation> {
    let mut found = Vec::new();
    for (guard, period) in &story.jobs {
        let Some(run) = story.grants.iter().find(|grant| grant.guard == *guard) else { continue };
        // The job cannot have begun before it was requested.
        let over = run.asked + (period - period / DRIFT);
        let is_too_early = |other: &_| over > run.entered && other > &run.entered && other < &over;
        // A lower token was granted before, even if its holder learned of it later.
        let later = story.grants.iter().filter(|grant| grant.token > run.token);
        let starts = later.map(|grant| grant.entered);
        if let Some(again) = starts.filter(is_too_early).min() {
            let after = (again - run.asked) / 1_000_000;
            let what = format!(
                "started again after {after} ms, and its period is {} ms",
                period / 1_000_000
            );
            found.push(Violation::new("jobs", what, (run.asked, again)));
        }
    }
    found
}
