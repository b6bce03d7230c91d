//! The list of names that are held or waited for.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::{Answer, LockName, Operation, Page, Reply, StoreError, StoreErrorKind};

use super::fan_out::ask;
use super::nodes::Nodes;

/// Names that are held on a majority of the nodes, if each silent node counts as one on which they
/// are held.
pub(super) async fn run(
    nodes: &Arc<Nodes>,
    prefix: String,
    limit: u32,
) -> Result<Answer, StoreError> {
    let replies = ask(nodes, Operation::List { prefix, limit }, |_| false).await;
    let answered = replies.answers.len();
    if answered < nodes.needed {
        return Err(replies.undecided(nodes, "the list"));
    }
    let (mut counts, mut is_cut) = (BTreeMap::<LockName, usize>::new(), false);
    for reply in replies.answers {
        let Reply::Names(names) = reply else { continue };
        is_cut |= names.len() >= limit as usize;
        for name in names {
            *counts.entry(name).or_default() += 1;
        }
    }
    // If the limit has cut a list short, the node may have a name that is missing from the list.
    let least = if is_cut { 1 } else { nodes.least(answered) };
    let names = counts.into_iter().filter(|(_, count)| *count >= least).map(|(name, _)| name);
    Ok(Answer::untimed(Reply::Names(names.take(limit as usize).collect())))
}

/// Returns the pages of one node, then those of the next. A name that is held on a majority is on
/// the pages of any majority of the nodes. A name on fewer nodes is listed, too, and a look at it
/// shows no holder. A node that does not answer is skipped, as long as a majority is left.
pub(super) async fn page(
    nodes: &Arc<Nodes>,
    prefix: String,
    after: Option<&str>,
    keys: u32,
) -> Result<Answer, StoreError> {
    let Some(place) = after.map_or(Some(PageEnd::default()), PageEnd::parse) else {
        let why = format!("{after:?} is no end of a page of this store: begin anew");
        return Err(StoreError::new(StoreErrorKind::Unsupported, why));
    };
    let Some(node) = nodes.nodes.get(place.node) else {
        return Ok(Answer::untimed(Reply::Page(Page::default())));
    };
    let operation = Operation::ListPage { prefix, after: place.after.map(str::to_owned), keys };
    let (mut page, missing, next) = match nodes.in_time(node.ask(operation)).await {
        Ok(timed) => match timed.answer.reply {
            Reply::Page(mut page) => {
                let next = page.next.take();
                (page, place.missing, next)
            }
            _ => return Err(StoreError::unknown_request()),
        },
        Err(error) if place.missing + nodes.needed >= nodes.len() => {
            // The errors of earlier nodes are not known any more.
            if !error.kind().is_outage() {
                return Err(StoreError::new(error.kind(), format!("the list: {error}")));
            }
            let answered = nodes.len() - place.missing - 1;
            return Err(nodes.undecided("the list", answered, &[error]));
        }
        Err(_) => (Page::default(), place.missing + 1, None),
    };
    page.next = match next {
        Some(after) => Some(format!("{}:{missing}:{after}", place.node)),
        None if place.node + 1 < nodes.len() => Some(format!("{}:{missing}:", place.node + 1)),
        None => None,
    };
    Ok(Answer::untimed(Reply::Page(page)))
}

/// The end of a page: the node, the number of nodes before it that did not answer, and the position
/// in its list.
#[derive(Clone, Copy, Debug, Default)]
struct PageEnd<'a> {
    node: usize,
    missing: usize,
    after: Option<&'a str>,
}

impl<'a> PageEnd<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let (node, missing) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { node, missing, after: parts.next().filter(|after| !after.is_empty()) })
    }
}
