//! The statements mean what the model does. Random histories are played to a server and to the
//! model, one after the other, and several together, so that their requests share statements. After
//! every action, the reply and the record are compared; after a history, all messages.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::{Postgres as Store, Store as _};
use leasehold_core::backoff::Jitter;
use leasehold_core::model::{self, Record, Rules, State};
use leasehold_core::{
    Action, Addressed, ClientId, End, HolderId, HolderInfo, Keep, LockName, Message, Mode,
    Operation, Reply, Request, Take,
};
use leasehold_testkit::must;
use tokio::sync::{Barrier, mpsc};
use tokio_postgres::{AsyncMessage, Client};

use crate::Database;

const HISTORIES: u64 = 200;

/// How many of them are played together: half of them alone, the others in groups.
const TOGETHER: [usize; 2] = [1, 20];

const ACTIONS: usize = 30;
const TTL: Duration = Duration::from_secs(10);

/// By how much the times of a row go back, in ms: near the limits of the protocol.
const SPANS: [u64; 8] = [900, 2_900, 3_100, 6_900, 7_100, 10_100, 61_000, 70_100];

/// The record in a row, and the counter.
const READ: &str = "SELECT counter, CASE WHEN record IS NULL THEN '1' || coalesce(concat(\
        E'\\ngate ' || (used_until_us / 1000 - 1) || ' ' || hold, \
        E'\\n' || array_to_string(queue, E'\\n')), '') ELSE record END \
    FROM lease WHERE name = $1 UNION ALL \
    SELECT value, '1' FROM number WHERE name = 'forgotten' LIMIT 1";

/// How many rows a transaction has written with another row.
const SHARED: &str = "SELECT count(*) - count(DISTINCT xmin::text) FROM lease";

/// Writes the parts of a record that have times, and lets the other times go back.
const AGE: &str = "UPDATE lease SET record = CASE WHEN record IS NOT NULL THEN $2 END, \
    queue = CASE WHEN queue IS NOT NULL THEN $3::text[] END, \
    free_from_us = greatest(0, free_from_us - $4), \
    used_until_us = greatest(0, used_until_us - $4) WHERE name = $1";

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

/// A history on a separate name, and what the model says of it.
struct History {
    name: LockName,
    draw: Jitter,
    readers: u64,
    places: BTreeMap<HolderId, u64>,
    record: Record,
    expected: Vec<(String, String)>,
}

impl History {
    fn new(number: u64) -> Self {
        let (name, draw) = (format!("history {number}"), Jitter::new(number));
        let (readers, places) = ([0, 0, 1, 3][number as usize % 4], BTreeMap::new());
        let (name, record) = (must(LockName::new(name)), Record::default());
        Self { name, draw, readers, places, record, expected: Vec::new() }
    }

    /// A number that looks random, the same in each run.
    fn below(&mut self, limit: u64) -> u64 {
        self.draw.next_u64() % limit
    }

    fn action(&mut self) -> (HolderId, Action) {
        let client = self.below(4);
        let id = HolderId { client: ClientId(client.into()), attempt: 1 + self.below(2) };
        let mode = if client < self.readers { Mode::Shared } else { Mode::Exclusive };
        let label = (client == 1).then(|| "7 * nightly".to_owned());
        let request = Request::new(id, mode, HolderInfo::new("a host", 9).with_label(label));
        let action = match self.below(20) {
            0..8 => {
                let place = self.places.get(&id).copied().filter(|_| self.below(3) == 0);
                let take = Take::new(request, TTL).with_waits(self.below(9) > 0);
                Action::Take(take.with_place(place))
            }
            8..16 => {
                let cooldown = Duration::from_secs(7) * u32::from(self.below(16) == 0);
                let end = End::new(request).with_closes(self.below(16) == 0);
                Action::End(end.with_cooldown(cooldown))
            }
            16..19 => Action::Keep(Keep::new(request, TTL)),
            _ => Action::Revoke { id, force: self.below(2) == 0 },
        };
        (id, action)
    }

    /// The counter in the row, and the record.
    async fn read(&self, session: &Client) -> (u64, Record) {
        let row = must(session.query_one(READ, &[&self.name.as_str()]).await);
        (must(u64::try_from(row.get::<_, i64>(0))), must(Record::from_text(row.get(1))))
    }

    /// Lets all times of the record go back, sometimes.
    async fn age(&mut self, session: &Client) {
        if self.below(6) > 0 {
            return;
        }
        let (span_ms, (_, mut found)) = (SPANS[self.below(8) as usize], self.read(session).await);
        [&mut found, &mut self.record].into_iter().for_each(|it| age(it, span_ms));
        let text = found.to_text();
        let waits: Vec<&str> = text.lines().skip(1).filter(|it| !it.starts_with("gate")).collect();
        let span_us = must(i64::try_from(span_ms * 1_000));
        must(session.execute(AGE, &[&self.name.as_str(), &text, &waits, &span_us]).await);
    }

    /// Executes an action, together with others, and compares the reply and the record. The tokens
    /// of one statement differ by less than its number of names.
    async fn play(&mut self, at: usize, store: &Store, session: &Client, begin: &Barrier) {
        let (counter, _) = self.read(session).await;
        begin.wait().await;
        let (id, action) = self.action();
        let operation = Operation::On { name: self.name.clone(), action: action.clone() };
        let answer = must(store.execute(operation).await);
        let (drawn, mut found) = self.read(session).await;
        let mut now = answer.now.unwrap();
        let model = |now| {
            let (mut record, mut counter) = (self.record.clone(), counter);
            let outcome = model::step(&mut record, &mut counter, now, Rules::USUAL, &action);
            (outcome, record, counter)
        };
        let (mut outcome, mut record, said) = model(now);
        if said != drawn && (now.token_us..now.token_us + TOGETHER[1] as u64).contains(&drawn) {
            now.token_us = drawn;
            (outcome, record, _) = model(now);
        }
        found.expire(now);
        let place = format!("{}, action {at}: {action:?}", self.name.as_str());
        assert_eq!(answer.reply, outcome.reply, "{place}");
        assert_eq!(found.to_text(), record.to_text(), "{place}");
        self.record = record;
        self.expected.extend(outcome.messages.iter().map(shown));
        if let Reply::Queued(place) = answer.reply {
            self.places.insert(id, place.sequence);
        }
    }
}

#[tokio::test]
async fn every_statement_means_what_the_model_does() {
    let Some(database) = Database::new() else { return };
    let store = crate::open(&database.url()).await;
    let (sender, mut told) = mpsc::unbounded_channel();
    let (session, mut connection) = must(crate::faults::connect(&database.server).await);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(it) = message {
                let _ = sender.send((it.channel().to_owned(), it.payload().to_owned()));
            }
        }
    });
    let inboxes: String = (0..4).map(|client| format!("LISTEN lh_{};", ClientId(client))).collect();
    let sql = format!("SET search_path = {}; LISTEN over; {inboxes}", database.schema);
    must(session.batch_execute(&sql).await);
    let mut numbers = 1..=HISTORIES;
    while !numbers.is_empty() {
        let together = TOGETHER[usize::from(*numbers.start() > HISTORIES / 2)];
        let mut histories: Vec<_> = numbers.by_ref().take(together).map(History::new).collect();
        let (begin, mut shared) = (Barrier::new(together), 0);
        for at in 0..ACTIONS {
            for history in &mut histories {
                history.age(&session).await;
            }
            let playing = histories.iter_mut().map(|it| it.play(at, &store, &session, &begin));
            join_all(playing).await;
            shared += must(session.query_one(SHARED, &[]).await).get::<_, i64>(0);
        }
        assert_eq!(shared > 0, together > 1, "{shared} rows were written with another one");
        must(session.batch_execute("NOTIFY over").await);
        let mut messages = Vec::new();
        while let Some(message) = told.recv().await.filter(|(channel, _)| channel != "over") {
            messages.push(message);
        }
        let mut expected: Vec<_> = histories.into_iter().flat_map(|it| it.expected).collect();
        [&mut messages, &mut expected].into_iter().for_each(|it| it.sort());
        assert_eq!(messages, expected, "before history {}", numbers.start());
    }
}
