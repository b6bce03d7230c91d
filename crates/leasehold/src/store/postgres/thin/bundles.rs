//! Requests of callers that ask together share a statement, with an array for each of their values.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{HolderId, LockName, StoreError};
use tokio::sync::oneshot::{self, Sender};
use tokio_postgres::Row;

use crate::mutex::Mutex;
use crate::store::postgres::connection::Sessions;

const FRAME: &str = include_str!("frame.sql");

/// The largest number of names in a statement: 100.
const MOST: usize = 100;

/// One kind of statement, and the requests that wait for it.
pub(super) struct Bundles {
    sessions: Arc<Sessions>,
    /// The statement for one name, and for several.
    texts: [String; 2],
    /// The requests that wait, and whether a statement is under way. There is one at a time: then
    /// the next one has all the names for which somebody asks meanwhile.
    waiting: Mutex<(Vec<Asked>, bool)>,
}

/// What the statement needs to know of a request, and who waits for its row.
struct Asked {
    name: LockName,
    own: String,
    ttl_ms: i64,
    what: String,
    caller: Sender<Result<Option<Row>, StoreError>>,
}

impl Bundles {
    pub(super) fn new(sessions: &Arc<Sessions>, parts: &str) -> Self {
        let without = |word: &str, text: &str| -> String {
            text.split_inclusive('\n').filter(|line| !line.contains(word)).collect()
        };
        let (mut many, mut parts) = (without("--", FRAME), parts);
        for word in ["RETURNING", "FOR", "WHERE", "SET"] {
            let (before, part) = parts.rsplit_once(&format!("\n{word} ")).unwrap_or_default();
            many = many.replace(&format!("<{word}>"), part.trim_end());
            parts = before;
        }
        let one = without("unnest", &many).replace(" + k.at", "").replace("k.at", "1::bigint");
        let columns = (1..).zip(["k.name", "k.own", "k.ms", "k.what"]);
        let one = columns.fold(one, |one, (at, column)| one.replace(column, &format!("${at}")));
        let (sessions, texts, waiting) = (Arc::clone(sessions), [one, many], Mutex::default());
        Self { sessions, texts, waiting }
    }

    /// Asks for a name, in one statement with others who ask. If it returns no row for the name, it
    /// has changed nothing there.
    pub(super) async fn ask(
        self: &Arc<Self>,
        name: &LockName,
        id: HolderId,
        ttl: Duration,
        what: &str,
    ) -> Result<Option<Row>, StoreError> {
        let (caller, answer) = oneshot::channel();
        // Whole milliseconds, of which none is lost.
        let ttl_ms = i64::try_from(ttl.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX);
        let (name, own, what) = (name.clone(), super::own(id), what.to_owned());
        {
            let (asked, is_under_way) = &mut *self.waiting.lock();
            asked.push(Asked { name, own, ttl_ms, what, caller });
            if !std::mem::replace(is_under_way, true) {
                tokio::spawn(Arc::clone(self).send());
            }
        }
        answer.await.unwrap_or_else(|_| Err(StoreError::unknown_request().maybe_executed()))
    }

    /// Sends statements until nobody waits.
    async fn send(self: Arc<Self>) {
        loop {
            let mut bundle: Vec<_> = {
                let (asked, is_under_way) = &mut *self.waiting.lock();
                if asked.is_empty() {
                    *is_under_way = false;
                    return;
                }
                asked.drain(..asked.len().min(MOST)).collect()
            };
            bundle.sort_by(|a, b| a.name.cmp(&b.name));
            let mut done = self.run(&bundle).await;
            for (at, Asked { caller, .. }) in (1..).zip(bundle) {
                let own = done.as_mut().map(|rows| rows.remove(&at)).map_err(|error| error.clone());
                // The send fails if the caller has given up.
                let _ = caller.send(own);
            }
        }
    }

    /// The rows by the indices of their requests.
    async fn run(&self, bundle: &[Asked]) -> Result<HashMap<i64, Row>, StoreError> {
        let [one, many] = &self.texts;
        let session = self.sessions.take().await?;
        let rows = if let [Asked { name, own, ttl_ms, what, .. }] = bundle {
            let values = values![TEXT name.as_str(), TEXT own, INT8 ttl_ms, TEXT what];
            session.attempt(one, &values).await?
        } else {
            let names: Vec<_> = bundle.iter().map(|it| it.name.as_str()).collect();
            let owns: Vec<_> = bundle.iter().map(|it| &it.own).collect();
            let ttls: Vec<_> = bundle.iter().map(|it| it.ttl_ms).collect();
            let whats: Vec<_> = bundle.iter().map(|it| &it.what).collect();
            let values =
                values![TEXT_ARRAY names, TEXT_ARRAY owns, INT8_ARRAY ttls, TEXT_ARRAY whats];
            session.attempt(many, &values).await?
        };
        Ok(rows.into_iter().map(|row| (row.get(1), row)).collect())
    }
}
