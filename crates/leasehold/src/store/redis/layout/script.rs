//! The scripts: they are assembled from their files once, and named by the SHA-1 that EVALSHA
//! takes.
//!
//! A new script is a file of `lua/` and a line in the table below. A file names the shared files
//! that it includes: a line `--@include native/record` stands for the text of
//! `lua/native/record.lua`. So shared code exists only once, and an operation can take a fast path
//! (`lua/fast/`) before Lua has to build the functions of the general code. Names of constants are
//! replaced by their values; a constant of the model gets its value from the model.

use std::time::Duration;

use leasehold_core::{LOCK_CAPACITY, bugs, model, token};
use once_cell::race::OnceBox;

use super::codec::RECORD_VERSION;
use super::plain::value;
use super::redisson::limits::{PEEK_LIMIT, WATCHDOG};
use crate::store::redis::connection::call::ScriptText;

/// How long a list of the nodes of a quorum counts as in use after somebody left it: 5 min.
pub(crate) const LIST_LIFE: Duration = Duration::from_mins(5);

/// The line of Lua that reads the server's clock.
pub const CLOCK: &str = include_str!("lua/clock.lua");

const INCLUDE: &str = "--@include ";

/// The files that others include, by their names: `lua/NAME.lua`. The clock is not among them, so
/// that a test can bring its own.
macro_rules! shared {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("lua/", $name, ".lua")))),*] };
}

const SHARED: [(&str, &str); 21] = shared![
    "arguments",
    "boot",
    "fast/acquire",
    "fast/confirm",
    "fast/hand_on",
    "fast/join",
    "fast/keep_place",
    "fast/release",
    "fast/renew",
    "fast/waiters",
    "guard",
    "native/acquire_request",
    "native/grant",
    "native/hold",
    "native/queue",
    "native/record",
    "native/release_request",
    "native/replied",
    "plain/value",
    "publish",
    "redisson/lock",
];

/// The state of a record while something is held, after its head: each value, with its name in Lua
/// and its packing. The last values are those of the hold at index 0.
const STATE: [(&str, &str); 14] = [
    ("count", "I4"),
    ("used", "I4"),
    ("cursor", "I4"),
    ("bound", "d"),
    ("running", "d"),
    ("longest_ttl", "d"),
    ("holder", "c24"),
    ("held_weight", "I4"),
    ("hold_state", "B"),
    ("token", "d"),
    ("since", "d"),
    ("deadline", "d"),
    ("held_ttl", "d"),
    ("held_nonce", "c8"),
];

/// The index of the first value of the hold.
const HOLD_FROM: usize = 6;

/// The state of a record with a single ordinary hold. It has at most 64 bytes: with longer values,
/// a server stores a hash as a table, which takes more memory.
const ALONE: [(&str, &str); 10] = [
    ("version", "B"),
    ("flags", "B"),
    ("total", "I4"),
    ("last_token", "I7"),
    ("collect_at", "I7"),
    ("holder", "c24"),
    ("held_weight", "I4"),
    ("hold_state", "B"),
    ("since", "I7"),
    ("deadline", "I7"),
];

/// The index of the holder in that state. The values before it are the head of each state, and the
/// whole state of a record without holds.
const HOLDER: usize = 5;

/// The other facts about a single hold, in a second field, next to that of the state.
const TERM: [(&str, &str); 3] = [("bound", "I7"), ("held_ttl", "I7"), ("held_nonce", "c8")];

/// The hold that was released last.
const LAST: [(&str, &str); 2] = [("ended", "I7"), ("holder", "c24")];

/// The format string of values for `struct.pack`.
fn format_of(values: &[(&str, &str)]) -> String {
    let formats: String = values.iter().map(|(_, format)| *format).collect();
    format!("'<{formats}'")
}

/// The size of packed values, in bytes.
fn bytes_of(values: &[(&str, &str)]) -> u64 {
    let bytes = |format: &str| match format {
        "B" => 1,
        "I4" => 4,
        "I7" => 7,
        "d" => 8,
        text => text.trim_start_matches('c').parse().unwrap_or(0),
    };
    values.iter().map(|(_, format)| bytes(format)).sum()
}

/// A word in capitals that stands for a value, and the value in Lua's notation.
type Constant = (&'static str, String);

/// The constants and all texts. Threads that need them at the same time each make them, and none
/// waits for another: a child that is forked at that moment does not have that other thread.
static CONSTANTS: OnceBox<Vec<Constant>> = OnceBox::new();
static TEXTS: OnceBox<Texts> = OnceBox::new();

/// The text of each script.
type Texts = [ScriptText; Script::ALL.len()];

/// Numbers of the model, which is the only place that defines them, and formats of packed values.
fn constants() -> &'static [Constant] {
    CONSTANTS.get_or_init(|| Box::new(make_constants()))
}

fn make_constants() -> Vec<Constant> {
    let span = |name, span: Duration| (name, span.as_micros().to_string());
    let number = |name, number: u64| (name, number.to_string());
    let format = |name, format: &str| (name, format!("'{format}'"));
    let (held, hold) = STATE.split_at(HOLD_FROM);
    let names = |values: &[(&str, &str)]| {
        values.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    vec![
        span("BALLOT_LEAD", model::BALLOT_LEAD),
        span("CLAIM_WINDOW", model::CLAIM_WINDOW),
        span("DEAD_AFTER", model::DEAD_AFTER),
        span("LIST_LIFE", LIST_LIFE),
        span("POLL_INTERVAL", model::POLL_INTERVAL),
        span("TOMBSTONE_LIFE", model::TOMBSTONE_LIFE),
        span("WATCHDOG", WATCHDOG),
        number("GRANT_BOUND", model::GRANT_BOUND.into()),
        number("LOCK_CAPACITY", LOCK_CAPACITY.into()),
        number("MAX_TOMBSTONES", model::MAX_TOMBSTONES as u64),
        number("MAX_WAITING", model::MAX_WAITING as u64),
        number("PEEK_LIMIT", PEEK_LIMIT.into()),
        number("PLAIN_BYTES", value::MAX_VALUE_BYTES as u64),
        number("NEVER", (1 << 53) - 1), // the latest time that a double can hold exactly
        number("REAP_BOUND", model::REAP_BOUND.into()),
        number("SKIP_BOUND", model::SKIP_BOUND.into()),
        number("TOKEN_EPOCH", token::TOKEN_EPOCH_US),
        number("VERSION", RECORD_VERSION.into()),
        number("CLAIMED", 0),
        number("COOLDOWN", 1),
        number("REVOKED", 2),
        number("UNCLAIMED", 3),
        format("NOBODY", &r"\0".repeat(24)), // no attempt: no client's id has these bytes
        ("HELD", format_of(held)),
        number("HELD_BYTES", bytes_of(held)),
        ("HOLD", format_of(hold)),
        number("HOLD_BYTES", bytes_of(hold)),
        ("ALONE", format_of(&ALONE)),
        number("ALONE_BYTES", bytes_of(&ALONE)),
        ("ALONE_FIELDS", names(&ALONE)),
        ("ALONE_HEAD", format_of(&ALONE[..HOLDER])),
        number("HEAD_BYTES", bytes_of(&ALONE[..HOLDER])),
        ("ALONE_HOLD", format_of(&ALONE[HOLDER + 1..])), // the values after the holder
        number("HOLDER_AT", bytes_of(&ALONE[..HOLDER]) + 1),
        ("TERM", format_of(&TERM)),
        number("TERM_BYTES", bytes_of(&TERM)),
        ("TERM_FIELDS", names(&TERM)),
        ("TERM_TIMES", format_of(&TERM[..2])), // without the nonce
        format("GRANT_MESSAGE", "<c1dc8ddd"),
        format("HEX", "%08x%08x%08x%08x"), // sixteen times %02x would take four times as long
        ("LAST", format_of(&LAST)),
        number("LAST_BYTES", bytes_of(&LAST)),
        format("QUEUE", "<I4ddc24c24"),
        number("QUEUE_BYTES", 68),
        format("TOMBSTONE", "<c16dd"),
        number("TOMBSTONE_BYTES", 32),
        format("WAITER", "<dc24c24I4I4ddc8"),
        number("WAITER_BYTES", 88),
    ]
}

/// The access that a script needs at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScriptAccess {
    /// The script may add something: a full server refuses it.
    Adds,
    /// The script ends, extends or moves a hold: a full server must not block an unlock.
    Frees,
    /// The script only reads: a replica would run it, too, and answer with old data.
    Reads,
}

impl ScriptAccess {
    /// The line that a script begins with.
    const fn flags(self) -> &'static str {
        match self {
            Self::Adds => "#!lua\n",
            Self::Frees => "#!lua flags=allow-oom\n",
            Self::Reads => "#!lua flags=no-writes\n",
        }
    }
}

/// The table of scripts: a line for each, with its file below `lua/` and its access.
macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident: $file:literal, $access:ident;)*) => {
        /// One script.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Script {
            $($(#[$doc])* $name,)*
        }

        impl Script {
            /// All scripts, to load into a server.
            pub const ALL: [Self; [$($file),*].len()] = [$(Self::$name),*];

            const fn file(self) -> &'static str {
                match self {
                    $(Self::$name => include_str!(concat!("lua/", $file, ".lua")),)*
                }
            }

            const fn access(self) -> ScriptAccess {
                match self {
                    $(Self::$name => ScriptAccess::$access,)*
                }
            }
        }
    };
}

scripts! {
    /// Takes the lock, or joins its queue.
    Acquire: "native/acquire", Adds;
    /// Takes over a lease that was handed out.
    Adopt: "native/adopt", Adds;
    /// Checks whether the server has forgotten anything.
    BootRecord: "boot_record", Frees;
    /// Removes a waiter.
    Cancel: "native/cancel", Frees;
    /// Raises a hold's token.
    Commit: "native/commit", Frees;
    /// Changes the facts about a holder.
    Describe: "native/describe", Adds;
    /// Reads the holders and the waiters.
    Inspect: "native/inspect", Reads;
    /// Reads and writes the id of a node of a quorum, and its clients' lists of nodes.
    Nodes: "nodes", Frees;
    /// Takes a plain lock.
    PlainAcquire: "plain/acquire", Adds;
    /// Takes over the lease of a plain lock.
    PlainAdopt: "plain/adopt", Adds;
    /// Changes the facts about the holder of a plain lock.
    PlainDescribe: "plain/describe", Adds;
    /// Reads the value of a plain lock.
    PlainInspect: "plain/inspect", Reads;
    /// Ends the hold of a plain lock.
    PlainRelease: "plain/release", Frees;
    /// Extends the leases of plain locks.
    PlainRenew: "plain/renew", Frees;
    /// Ends the hold of a plain lock, for an operator.
    PlainRevoke: "plain/revoke", Frees;
    /// Confirms a grant, or keeps a place.
    Poll: "native/poll", Frees;
    /// Gives a holder its forgotten lease back.
    Reclaim: "native/reclaim", Adds;
    /// Takes a lock of Redisson.
    RedissonAcquire: "redisson/acquire", Adds;
    /// Takes over the lease of a lock of Redisson.
    RedissonAdopt: "redisson/adopt", Adds;
    /// Changes the facts about the holder of a lock of Redisson.
    RedissonDescribe: "redisson/describe", Adds;
    /// Reads the holders of a lock of Redisson.
    RedissonInspect: "redisson/inspect", Reads;
    /// Ends a hold of a lock of Redisson.
    RedissonRelease: "redisson/release", Frees;
    /// Extends the leases of locks of Redisson.
    RedissonRenew: "redisson/renew", Frees;
    /// Ends a hold of a lock of Redisson, for an operator.
    RedissonRevoke: "redisson/revoke", Frees;
    /// Ends a hold and hands it on.
    Release: "native/release", Frees;
    /// Extends leases.
    Renew: "native/renew", Frees;
    /// Ends a hold, for an operator.
    Revoke: "native/revoke", Frees;
}

fn make_texts() -> Texts {
    Script::ALL.map(|script| {
        let mut text = ScriptText::new(script.assemble(CLOCK));
        text.takes_many = script.takes_many();
        if script == Script::Acquire {
            let guarded = script.assemble(&format!("{CLOCK}{INCLUDE}guard\n"));
            text.guarded = Some(Box::new(ScriptText::new(guarded)));
        }
        text
    })
}

impl Script {
    /// Whether one call can serve many names, each as if it were alone.
    const fn takes_many(self) -> bool {
        matches!(self, Self::Acquire | Self::Inspect | Self::Release)
    }

    /// The text of the script and its hash.
    pub fn text(self) -> &'static ScriptText {
        &TEXTS.get_or_init(|| Box::new(make_texts()))[self as usize]
    }

    /// The text for SCRIPT LOAD.
    pub fn source(self) -> &'static str {
        &self.text().source
    }

    /// The SHA-1 for EVALSHA: 40 hex digits.
    pub fn sha1(self) -> &'static str {
        &self.text().sha1
    }

    /// The whole text, with `clock` as the lines that read the clock. Only a test passes other
    /// lines than [`CLOCK`].
    pub fn assemble(self, clock: &str) -> String {
        let mut whole = self.access().flags().to_owned();
        include(&mut whole, self.file(), clock);
        write_constants(&whole)
    }
}

/// Adds a file with all its includes.
fn include(whole: &mut String, file: &str, clock: &str) {
    for line in file.lines() {
        match line.strip_prefix(INCLUDE) {
            Some("clock") => include(whole, clock, ""),
            Some(name) => include(whole, shared(name), clock),
            None => {
                whole.push_str(bugs::patched(line));
                whole.push('\n');
            }
        }
    }
}

/// The text of a shared file. It is empty for an unknown name, and the script then fails its first
/// test.
fn shared(name: &str) -> &'static str {
    SHARED.iter().find_map(|(shared, text)| (*shared == name).then_some(*text)).unwrap_or_default()
}

/// The text with each constant's name replaced by its value, except in comments.
fn write_constants(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (code, comment) = line.split_at(line.find("--").unwrap_or(line.len()));
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut rest = code;
        while let Some(start) = rest.find(is_word) {
            let (before, word) = rest.split_at(start);
            let (word, after) = word.split_at(word.find(|c| !is_word(c)).unwrap_or(word.len()));
            let constant = constants().iter().find(|(name, _)| *name == word);
            let value = constant.map_or(word, |(_, value)| value);
            written.push_str(before);
            written.push_str(value);
            rest = after;
        }
        written.push_str(rest);
        written.push_str(comment);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_begins_with_its_flags_and_includes_all_it_asks_for() {
        for script in Script::ALL {
            assert!(script.source().starts_with("#!lua"), "{script:?}");
            assert!(!script.source().contains(INCLUDE), "{script:?}");
        }
        let files = Script::ALL.map(Script::file).into_iter();
        for line in files.chain(SHARED.map(|(_, text)| text)).flat_map(str::lines) {
            if let Some(name) = line.strip_prefix(INCLUDE) {
                assert!(name == "clock" || !shared(name).is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn each_line_that_a_named_bug_replaces_is_in_a_script() {
        let files = Script::ALL.map(Script::file).into_iter();
        let lines = files.chain(SHARED.map(|(_, text)| text)).flat_map(str::lines);
        let lines: Vec<&str> = lines.map(str::trim_start).collect();
        for (bug, right, _) in bugs::PATCHES {
            assert!(lines.contains(&right), "{}: {right}", bug.name());
        }
    }

    #[test]
    fn constants_are_written_as_values_and_other_words_stay() {
        let text = "if a.NEVER_MIND == COOLDOWN or KEYS[1] then b = 'x'..NOBODY end -- COOLDOWN\n";
        let nobody = r"\0".repeat(24);
        let expected =
            format!("if a.NEVER_MIND == 1 or KEYS[1] then b = 'x'..'{nobody}' end -- COOLDOWN\n");
        assert_eq!(write_constants(text), expected);
    }

    #[test]
    fn each_script_reads_the_clock_once() {
        let texts = Script::ALL.map(Script::text);
        for text in texts.iter().flat_map(|text| [Some(*text), text.guarded.as_deref()]).flatten() {
            assert_eq!(text.source.matches("'TIME'").count(), 1, "{}", text.source);
        }
    }

    #[test]
    fn a_full_server_blocks_no_unlock() {
        for script in [
            Script::BootRecord,
            Script::Cancel,
            Script::Commit,
            Script::PlainRelease,
            Script::PlainRenew,
            Script::PlainRevoke,
            Script::Poll,
            Script::RedissonRelease,
            Script::RedissonRenew,
            Script::RedissonRevoke,
            Script::Release,
            Script::Renew,
            Script::Revoke,
        ] {
            assert!(script.source().starts_with("#!lua flags=allow-oom\n"), "{script:?}");
        }
    }

    #[test]
    fn a_full_server_grants_nothing() {
        for script in [
            Script::Acquire,
            Script::Adopt,
            Script::PlainAcquire,
            Script::PlainAdopt,
            Script::Reclaim,
            Script::RedissonAcquire,
            Script::RedissonAdopt,
        ] {
            assert!(script.source().starts_with("#!lua\n"), "{script:?}");
        }
    }

    #[test]
    fn only_an_inspection_reads_without_writing() {
        let reads = Script::ALL.into_iter().filter(|script| script.text().is_read_only);
        assert_eq!(
            reads.collect::<Vec<_>>(),
            [Script::Inspect, Script::PlainInspect, Script::RedissonInspect]
        );
    }

    #[test]
    fn the_parts_of_a_state_are_as_long_as_in_the_records_of_this_version() {
        let length = |name| constants().iter().find(|(known, _)| *known == name).unwrap().1.clone();
        let general = ["HELD_BYTES", "HOLD_BYTES"].map(length);
        assert_eq!(general, ["36", "69"]);
        assert_eq!(length("HEAD_BYTES"), "20");
        let short = ["ALONE_BYTES", "TERM_BYTES", "LAST_BYTES"].map(length);
        assert_eq!(short, ["63", "22", "31"], "at most 64 each, or the hash gets a table");
    }
}
