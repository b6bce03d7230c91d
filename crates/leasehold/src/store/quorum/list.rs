//! The list of names that are held or waited for.

use std::sync::Arc;

use leasehold_core::{Answer, Operation, Page, Reply, StoreError, StoreErrorKind};

use super::node::Result;
use super::nodes::Nodes;

/// Returns the pages of one node, then those of the next. A name that is held on a majority is on
/// the pages of any majority of the nodes. A name on fewer nodes is listed, too, and a look at it
/// shows no holder. A node that does not answer is skipped, as long as a majority is left.
pub(super) async fn page(
    nodes: &Arc<Nodes>,
    prefix: String,
    after: Option<&str>,
    keys: u32,
) -> Result<Answer> {
    let Some(place) = after.map_or(Some(PageEnd::default()), PageEnd::parse) else {
        let why = format!("{after:?} is no end of a page of this store: begin anew");
        return Err(StoreError::new(StoreErrorKind::Unsupported, why));
    };
    let Some(node) = nodes.nodes.get(place.node) else {
        return Ok(Answer::untimed(Reply::Page(Page::default())));
    };
    let operation = Operation::List { prefix, after: place.after.map(str::to_owned), keys };
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
