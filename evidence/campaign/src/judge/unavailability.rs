//! How long nothing was granted: from the beginning of each fault, and after its end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::story::{Story, Wound};

/// The cost of faults of one kind, in milliseconds, a number for each fault.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Cost {
    /// From the beginning of the fault to its end.
    pub(crate) lasted_ms: Vec<u64>,
    /// The longest time without a grant, between its beginning and that of the next fault.
    pub(crate) silent_ms: Vec<u64>,
    /// From its end until each name that had a waiter then had a new holder.
    pub(crate) served_ms: Vec<u64>,
}

/// The cost of faults, by their kinds.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct Unavailable(pub(crate) BTreeMap<String, Cost>);

impl Unavailable {
    pub(super) fn of(wounds: &mut [Wound], stories: &BTreeMap<String, Story>) -> Self {
        wounds.sort_unstable_by_key(|wound| wound.begun);
        let grants = stories.values().flat_map(|story| &story.grants);
        let mut entered: Vec<u64> = grants.map(|grant| grant.entered).collect();
        entered.sort_unstable();
        let mut costs = Self::default();
        let Some(last) = entered.last().copied() else { return costs };
        for (at, wound) in wounds.iter().enumerate() {
            let end = wounds.get(at + 1).map_or(last, |next| next.begun);
            let cost = costs.0.entry(wound.kind.clone()).or_default();
            cost.lasted_ms.push(ms(wound.healed - wound.begun));
            cost.silent_ms.push(ms(longest_gap(&entered, wound.begun, end)));
            cost.served_ms.push(ms(served_after(wound.healed, stories)));
        }
        costs
    }

    /// Adds the costs of another run.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (kind, cost) in &other.0 {
            let all = self.0.entry(kind.clone()).or_default();
            all.lasted_ms.extend(&cost.lasted_ms);
            all.silent_ms.extend(&cost.silent_ms);
            all.served_ms.extend(&cost.served_ms);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.values().map(|cost| cost.lasted_ms.len()).sum()
    }
}

fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

/// The longest pause between these moments, as far as it is inside of these bounds.
fn longest_gap(moments: &[u64], begin: u64, end: u64) -> u64 {
    let first = moments.partition_point(|at| *at <= begin);
    let (mut longest, mut before) = (0, begin);
    for at in &moments[first..] {
        longest = longest.max((*at).min(end).saturating_sub(before));
        before = *at;
        if *at >= end {
            break;
        }
    }
    longest
}

/// How long it took until each name with a waiter had a new holder.
fn served_after(healed: u64, stories: &BTreeMap<String, Story>) -> u64 {
    let first = |story: &Story| {
        let grants = story.grants.iter();
        let waited = grants.filter(|grant| grant.asked < healed && grant.entered > healed);
        waited.map(|grant| grant.entered - healed).min()
    };
    stories.values().filter_map(first).max().unwrap_or(0)
}
