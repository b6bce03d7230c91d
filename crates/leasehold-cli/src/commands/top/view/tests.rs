//! Tests of keys, and of the screen on terminals of several sizes.

use std::time::Duration;

use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::store::Memory;
use leasehold::time::FakeClock;
use leasehold::{Client, Guard};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::screen::draw;
use super::*;
use crate::watch::{Order, Timekeeper, Watcher};

/// A store in memory, and a view of it.
struct Place {
    store: Memory,
    client: Client,
    clock: FakeClock,
    watcher: Watcher,
    view: View,
}

async fn client(store: &Memory, clock: &FakeClock) -> Client {
    Client::builder().store(store.clone()).clock(clock.clone()).build().await.unwrap()
}

impl Place {
    async fn new() -> Self {
        let clock = FakeClock::new();
        let store = Memory::with_clock(clock.clone());
        let client = client(&store, &clock).await;
        let watcher = Watcher::new(Vec::new(), Timekeeper::new(clock.clone()));
        let view = View::new("memory:".to_owned(), String::new());
        Self { store, client, clock, watcher, view }
    }

    async fn another_client(&self) -> Client {
        client(&self.store, &self.clock).await
    }

    async fn hold(&self, name: &str, label: &str) -> Guard {
        self.client.mutex(name).label(label).acquire().await.unwrap()
    }

    /// Looks at these names, and shows them in the view.
    async fn inspect(&mut self, names: &[&str]) {
        let admin = self.client.admin();
        let whole = async {
            while !self.watcher.picture().is_whole {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            never = self.watcher.run(&admin, |_| {}) => match never {},
            () = whole => {}
        }
        for name in names {
            let status = admin.inspect(*name).await.unwrap();
            let (name, now_ms) = (LockName::new(name).unwrap(), self.watcher.time.now_ms());
            self.watcher.picture().saw(&name, Ok(status), now_ms);
        }
        self.refresh();
    }

    fn refresh(&mut self) {
        self.view.refresh(&self.watcher.picture(), self.watcher.time.now_ms());
    }

    fn keys(&mut self, keys: &str) -> Option<Demand> {
        keys.chars().filter_map(|key| self.key(KeyCode::Char(key))).last()
    }

    fn key(&mut self, code: KeyCode) -> Option<Demand> {
        let demand = self.view.typed(&Event::Key(KeyEvent::from(code)));
        self.refresh();
        demand
    }

    fn names(&self) -> Vec<&str> {
        self.view.rows.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The lines that a terminal of this size shows.
    fn screen(&self, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &self.view)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned()).collect()
    }
}

#[tokio::test]
async fn a_table_says_who_holds_what_and_how_long_others_wait() {
    let mut place = Place::new().await;
    let first = place.hold("invoices/42", "billing").await;
    let lock = place.another_client().await.mutex("invoices/42");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    while place.client.admin().inspect("invoices/42").await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
    // A place in the queue may be a microsecond after the clock.
    place.clock.advance(Duration::from_millis(5_001));
    place.inspect(&["invoices/42"]).await;
    let screen = place.screen(80, 24);
    assert!(screen[0].starts_with("1 held, 1 awaited by 1, longest 5s"), "{screen:#?}");
    assert!(screen[0].ends_with("memory:"), "{screen:#?}");
    let cells: Vec<_> = screen[2].split_whitespace().collect();
    let process = format!(":{}", std::process::id());
    assert_eq!((cells[0], cells[1]), ("invoices/42", "w"), "{screen:#?}");
    assert!(cells[2].ends_with(&process), "{screen:#?}");
    assert_eq!((cells[3], cells[5], cells[6]), ("5s", "1", "5s"), "{screen:#?}");

    place.key(KeyCode::Enter);
    let details = place.screen(80, 24).join("\n");
    assert!(details.contains(&first.token().to_string()), "{details}");
    assert!(details.contains("billing") && details.contains("WAITER"), "{details}");
    waiting.abort();
}

#[tokio::test]
async fn the_smallest_terminal_still_says_name_holder_and_waiters() {
    let mut place = Place::new().await;
    let _held = place.hold("a", "").await;
    place.inspect(&["a"]).await;
    for (width, height) in [(40, 10), (20, 4), (1, 1)] {
        let screen = place.screen(width, height);
        if width == 40 {
            assert!(screen[1].contains("NAME") && screen[1].contains("WAITING"), "{screen:#?}");
            assert!(screen[2].starts_with("a "), "{screen:#?}");
        }
    }
}

#[tokio::test]
async fn a_filter_is_typed_and_cleared_and_the_cursor_stays_on_its_lock() {
    let mut place = Place::new().await;
    let _held = [place.hold("a", "red").await, place.hold("b", "blue").await];
    place.inspect(&["a", "b"]).await;
    place.keys("sss");
    assert_eq!(place.view.selection.order, Order::Name);
    assert_eq!(place.names(), ["a", "b"]);
    place.keys("j");
    place.keys("/blue");
    assert_eq!(place.names(), ["b"], "a label counts as well");
    assert!(place.screen(60, 8)[7].starts_with("/blue_"));
    place.key(KeyCode::Enter);
    assert_eq!(place.view.mode, Mode::Table);
    place.key(KeyCode::Esc);
    assert_eq!(place.names(), ["a", "b"]);
    assert_eq!(place.view.chosen().unwrap().0.as_str(), "b");
}

#[tokio::test]
async fn a_hold_is_revoked_after_a_question_and_only_then() {
    let mut place = Place::new().await;
    let held = place.hold("a", "").await;
    place.inspect(&["a"]).await;
    assert_eq!(place.keys("r"), None);
    let question = place.screen(100, 8)[7].clone();
    assert!(question.starts_with("revoke a from ") && question.contains("y / any"), "{question}");
    assert_eq!(place.keys("n"), None);
    assert_eq!(place.view.mode, Mode::Table);
    let demand = place.keys("ry");
    let name = LockName::new("a").unwrap();
    assert_eq!(demand, Some(Demand::Revoke { name, lease: held.token().into() }));
    assert_eq!(place.keys("q"), Some(Demand::Quit));
}

#[tokio::test]
async fn names_and_labels_of_strangers_disturb_no_terminal() {
    let mut place = Place::new().await;
    let _held = place.hold("<b>\u{202e}", "\u{202e}x").await;
    place.inspect(&["<b>\u{202e}"]).await;
    let table = place.screen(100, 24).concat();
    place.keys("r");
    let question = place.screen(100, 24).concat();
    place.keys("n");
    place.key(KeyCode::Enter);
    for screen in [table, question, place.screen(100, 24).concat()] {
        assert!(screen.contains("<b>") && !screen.contains('\u{202e}'), "{screen:?}");
    }
}

#[tokio::test]
async fn those_who_wait_for_each_other_are_marked_and_the_details_say_who_for_whom() {
    let mut place = Place::new().await;
    let (one, other) = (place.another_client().await, place.another_client().await);
    let _a = one.mutex("a").label("first").acquire().await.unwrap();
    let _b = other.mutex("b").label("second").acquire().await.unwrap();
    let _worker = place.hold("c", "at work").await;
    let wait = |client: &Client, name: &str| {
        let lock = client.mutex(name);
        tokio::spawn(async move { lock.acquire().await.map(drop) })
    };
    // A wait behind a working holder looks similar, but is no deadlock.
    let waits = [wait(&one, "b"), wait(&other, "a"), wait(&other, "c")];
    for name in ["a", "b", "c"] {
        while place.client.admin().inspect(name).await.unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
    }
    place.clock.advance(Duration::from_secs(11));
    let admin = place.client.admin();
    let found = async {
        while place.watcher.picture().deadlocks().is_empty() {
            place.clock.advance(Duration::from_millis(200));
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        never = place.watcher.run(&admin, |_| {}) => match never {},
        () = found => {}
    }
    place.refresh();
    let screen = place.screen(100, 24);
    assert!(screen[0].contains("1 deadlock"), "{screen:#?}");
    let rows = screen.iter().filter(|row| row.contains(&std::process::id().to_string()));
    let names: Vec<_> = rows.map(|row| row.split("  ").next().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("! ")).count(), 2, "{screen:#?}");
    assert!(names.contains(&"c"), "{screen:#?}");
    while place.view.chosen().unwrap().0.as_str() != "a" {
        place.keys("j");
    }
    place.key(KeyCode::Enter);
    for (width, height) in [(100, 24), (40, 10)] {
        let details = place.screen(width, height).join(" ");
        let details = details.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(details.contains("! probably a deadlock: "), "{details}");
        assert!(width < 100 || details.contains("has waited for b for "), "{details}");
        assert!(width < 100 || details.contains("(second) has held for"), "{details}");
    }
    waits.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn what_was_not_looked_at_is_not_said_to_be_free_nor_is_what_nobody_may_look_at() {
    let mut place = Place::new().await;
    place.refresh();
    let screen = place.screen(120, 24);
    assert!(screen[0].starts_with("still looking, 0 keys so far: 0 held"), "{screen:#?}");
    assert_eq!(screen[1], "no lock found yet");
    place.keys("/x");
    assert_eq!(place.screen(120, 24)[1], "no lock with that text found yet");
    let lacking = StoreError::new(StoreErrorKind::Denied, "the user may not `scan`");
    place.watcher.note_trouble(&lacking.into());
    place.refresh();
    let screen = place.screen(120, 24);
    assert_eq!(screen[0], "not allowed: the user may not `scan`");
    assert!(!screen.concat().contains("no lock has that text"), "{screen:#?}");
    // Once everything was looked at, the screen no longer says `found yet`.
    place.key(KeyCode::Esc);
    place.inspect(&["y"]).await;
    let screen = place.screen(120, 24);
    assert!(screen[0].starts_with("0 held"), "{screen:#?}");
    assert!(!screen.concat().contains("found yet"), "{screen:#?}");
}

#[tokio::test]
async fn a_wide_table_has_labels_and_the_help_says_what_the_modes_mean() {
    let mut place = Place::new().await;
    let _held = place.hold("invoices/42", "billing").await;
    place.inspect(&["invoices/42"]).await;
    assert!(place.screen(110, 24)[1].contains("LABEL"));
    assert!(place.screen(110, 24)[2].contains("billing"));
    assert!(!place.screen(80, 24)[1].contains("LABEL"));
    place.keys("?");
    assert!(place.screen(110, 24).concat().contains("r×3 three"));
    let stop = KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL);
    assert_eq!(place.view.typed(&Event::Key(stop)), Some(Demand::Suspend));
}
