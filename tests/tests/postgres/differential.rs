//! The statements mean what the model does. Random histories are played to a server and to the
//! model. After every action, the reply and the record are compared; after a history, all messages.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::time::Duration;

use leasehold::store::Store as _;
use leasehold_core::backoff::Jitter;
use leasehold_core::model::{self, Record, Rules, State};
use leasehold_core::{
    Action, Addressed, ClientId, End, HolderId, HolderInfo, Keep, LockName, Message, Mode,
    Operation, Reply, Request, Take,
};
use leasehold_testkit::must;
use tokio::sync::mpsc::unbounded_channel;
use tokio_postgres::AsyncMessage;

use crate::Database;

const HISTORIES: u64 = 150;
const ACTIONS: usize = 30;
const TTL: Duration = Duration::from_secs(10);

/// By how much the times of a row go back, in ms: near the limits of the protocol.
const SPANS: [u64; 8] = [900, 2_900, 3_100, 6_900, 7_100, 10_100, 15_100, 61_000];

/// The record in a row, and the counter.
const READ: &str = "SELECT counter, CASE WHEN record IS NULL THEN '1' || coalesce(concat(\
        E'\\ngate ' || (used_until_us / 1000 - 1) || ' ' || hold, \
        E'\\n' || array_to_string(queue, E'\\n')), '') ELSE record END \
    FROM lease WHERE name = $1 UNION ALL \
    SELECT value, '1' FROM number WHERE name = 'forgotten' LIMIT 1";

/// Writes the parts of a record that have times, and lets the other times go back.
const AGE: &str = "UPDATE lease SET record = CASE WHEN record IS NOT NULL THEN $2 END, \
    queue = CASE WHEN queue IS NOT NULL THEN $3::text[] END, \
    free_from_us = greatest(0, free_from_us - $4), \
    used_until_us = greatest(0, used_until_us - $4) WHERE name = $1";

/// Numbers that look random, the same in each run.
struct Draw(Jitter);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }
}

/// What the attempts of a history know.
#[derive(Default)]
struct Known {
    places: BTreeMap<HolderId, u64>,
    readers: u64,
}

impl Known {
    fn action(&self, draw: &mut Draw) -> (HolderId, Action) {
        let client = draw.below(4);
        let id = HolderId { client: ClientId(client.into()), attempt: 1 + draw.below(2) };
        let mode = if client < self.readers { Mode::Shared } else { Mode::Exclusive };
        let label = (client == 1).then(|| "7 * nightly".to_owned());
        let request = Request::new(id, mode, HolderInfo::new("a host", 9).with_label(label));
        let action = match draw.below(20) {
            0..8 => {
                let place = self.places.get(&id).copied().filter(|_| draw.below(3) == 0);
                let take = Take::new(request, TTL).with_waits(draw.below(9) > 0);
                Action::Take(take.with_place(place))
            }
            8..16 => {
                let cooldown = Duration::from_secs(7) * u32::from(draw.below(16) == 0);
                let end = End::new(request).with_closes(draw.below(16) == 0);
                Action::End(end.with_cooldown(cooldown))
            }
            16..19 => Action::Keep(Keep::new(request, TTL)),
            _ => Action::Revoke { id, force: draw.below(2) == 0 },
        };
        (id, action)
    }
}

/// A message, with its channel.
fn shown((client, message): &Addressed) -> (String, String) {
    let text = match *message {
        Message::Granted { attempt, token, now_us } => {
            format!("granted {attempt} {} {now_us}", token.get())
        }
        Message::Revoked { attempt, forced } => {
            format!("revoked {attempt} {}", if forced { "forced" } else { "asked" })
        }
        ref other => format!("{other:?}"),
    };
    (format!("lh_{client}"), text)
}

fn age(record: &mut Record, span_ms: u64) {
    let earlier = |ms: &mut u64| *ms = ms.saturating_sub(span_ms);
    if let Some(gate) = &mut record.gate {
        earlier(&mut gate.until_ms);
        if let State::Cooling { until_ms, .. } = &mut gate.state {
            earlier(until_ms);
        }
    }
    earlier(&mut record.queue_until_ms);
    record.queue.values_mut().for_each(|waiter| earlier(&mut waiter.asked_ms));
    record.shares.values_mut().for_each(|share| earlier(&mut share.deadline_ms));
    earlier(&mut record.closed_until_ms);
}

#[tokio::test]
async fn every_statement_means_what_the_model_does() {
    let Some(database) = Database::new() else { return };
    let store = crate::open(&database.url()).await;
    let (sender, mut told) = unbounded_channel();
    let (session, mut connection) = must(crate::faults::connect(&database.server).await);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(it) = message {
                let _ = sender.send((it.channel().to_owned(), it.payload().to_owned()));
            }
        }
    });
    let inboxes = (0..4).map(|client| format!("LISTEN lh_{};", ClientId(client)));
    let inboxes: String = inboxes.collect();
    let sql = format!("SET search_path = {}; LISTEN over; {inboxes}", database.schema);
    must(session.batch_execute(&sql).await);
    for history in 1..=HISTORIES {
        let mut draw = Draw(Jitter::new(history));
        let name = must(LockName::new(format!("history {history}")));
        let mut known = Known { readers: [0, 0, 1, 3][history as usize % 4], ..Known::default() };
        let (mut record, mut expected) = (Record::default(), Vec::new());
        for at in 0..ACTIONS {
            let row = must(session.query_one(READ, &[&name.as_str()]).await);
            let mut counter = must(u64::try_from(row.get::<_, i64>(0)));
            if draw.below(6) == 0 {
                let span_ms = SPANS[draw.below(8) as usize];
                let mut found = must(Record::from_text(row.get(1)));
                [&mut found, &mut record].into_iter().for_each(|it| age(it, span_ms));
                let text = found.to_text();
                let lines = text.split('\n');
                let waits: Vec<&str> = lines.skip(1).filter(|it| !it.starts_with("gate")).collect();
                let span_us = must(i64::try_from(span_ms * 1_000));
                must(session.execute(AGE, &[&name.as_str(), &text, &waits, &span_us]).await);
            }
            let (id, action) = known.action(&mut draw);
            let operation = match &action {
                Action::Keep(keep) => Operation::Keep(vec![(name.clone(), keep.clone())]),
                _ => Operation::On { name: name.clone(), action: action.clone() },
            };
            let answer = must(store.execute(operation).await);
            let reply = match answer.reply {
                Reply::Many(mut replies) => replies.remove(0),
                reply => reply,
            };
            let now = answer.now.unwrap();
            let outcome = model::step(&mut record, &mut counter, now, Rules::USUAL, &action);
            let row = must(session.query_one(READ, &[&name.as_str()]).await);
            let mut found = must(Record::from_text(row.get(1)));
            found.expire(now);
            let place = format!("history {history}, action {at}: {action:?}");
            assert_eq!(reply, outcome.reply, "{place}");
            assert_eq!(found.to_text(), record.to_text(), "{place}");
            expected.extend(outcome.messages.iter().map(shown));
            if let Reply::Queued(place) = reply {
                known.places.insert(id, place.sequence);
            }
        }
        must(session.batch_execute("NOTIFY over").await);
        let mut messages = Vec::new();
        while let Some(message) = told.recv().await.filter(|(channel, _)| channel != "over") {
            messages.push(message);
        }
        [&mut messages, &mut expected].into_iter().for_each(|it| it.sort());
        assert_eq!(messages, expected, "history {history}");
    }
}
