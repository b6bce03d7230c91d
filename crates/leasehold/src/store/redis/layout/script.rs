//! The scripts: put together from their files once, and named by their SHA-1 as EVALSHA wants it.
//!
//! A file of `lua/` that is an operation begins with its flags and says where shared files belong:
//! a line `--@include record` stands for the text of `lua/record.lua`. Shared code therefore exists
//! once, and an operation can do its most frequent case before Lua has to build the functions of
//! the general one. Constants are written in as values, those of the model from the model.

use std::sync::LazyLock;
use std::time::Duration;

use leasehold_core::{LOCK_CAPACITY, UPGRADABLE_WEIGHT, model, token};

use super::codec::RECORD_VERSION;
use super::plain::value;
use crate::store::redis::connection::call::ScriptText;

/// How long a list of the nodes of a quorum counts as in use after somebody left it: 5 min.
pub(crate) const LIST_LIFE: Duration = Duration::from_mins(5);

/// The line of Lua that reads the server's clock.
pub const CLOCK: &str = include_str!("lua/clock.lua");

const INCLUDE: &str = "--@include ";

/// The shared files, each under the name it is included by. The clock is not among them, so that
/// a test can bring its own.
const SHARED: [(&str, &str); 10] = [
    ("arguments", include_str!("lua/arguments.lua")),
    ("basics", include_str!("lua/basics.lua")),
    ("confirm", include_str!("lua/confirm.lua")),
    ("grant", include_str!("lua/grant.lua")),
    ("hand_on", include_str!("lua/hand_on.lua")),
    ("hold", include_str!("lua/hold.lua")),
    ("join", include_str!("lua/join.lua")),
    ("plain", include_str!("lua/plain.lua")),
    ("queue", include_str!("lua/queue.lua")),
    ("record", include_str!("lua/record.lua")),
];

/// A word in capitals that stands for a value, and that value as Lua writes it.
type Constant = (&'static str, String);

/// Numbers of the model, so that they exist once, and formats of what is packed.
static CONSTANTS: LazyLock<Vec<Constant>> = LazyLock::new(|| {
    let span = |name, span: Duration| (name, span.as_micros().to_string());
    let number = |name, number: u64| (name, number.to_string());
    let format = |name, format: &str| (name, format!("'{format}'"));
    vec![
        span("BALLOT_LEAD", model::BALLOT_LEAD),
        span("CLAIM_WINDOW", model::CLAIM_WINDOW),
        span("DEAD_AFTER", model::DEAD_AFTER),
        span("LIST_LIFE", LIST_LIFE),
        span("POLL_INTERVAL", model::POLL_INTERVAL),
        span("TOMBSTONE_LIFE", model::TOMBSTONE_LIFE),
        number("GRANT_BOUND", model::GRANT_BOUND.into()),
        number("LOCK_CAPACITY", LOCK_CAPACITY.into()),
        number("MAX_TOMBSTONES", model::MAX_TOMBSTONES as u64),
        number("MAX_WAITING", model::MAX_WAITING as u64),
        number("PLAIN_BYTES", value::MAX_VALUE_BYTES as u64),
        number("NEVER", (1 << 53) - 1), // the last time that a double holds exactly
        number("REAP_BOUND", model::REAP_BOUND.into()),
        number("SKIP_BOUND", model::SKIP_BOUND.into()),
        number("TOKEN_EPOCH", token::TOKEN_EPOCH_US),
        number("UPGRADABLE_WEIGHT", UPGRADABLE_WEIGHT.into()),
        number("VERSION", RECORD_VERSION.into()),
        number("CLAIMED", 0),
        number("KEPT", 1),
        number("REVOKED", 2),
        number("UNCLAIMED", 3),
        format("NOBODY", &r"\0".repeat(24)), // no attempt: the bytes of no client's id
        format("IDLE", "<BBI4I4dd"),
        number("IDLE_BYTES", 26),
        format("HELD", "<I4I4I4dddc24"),
        number("HELD_BYTES", 60),
        format("HOLD", "<c24I4Bdddddc8"),
        number("HOLD_BYTES", 77),
        format("HELD_BY_ONE", "<BBI4I4ddI4I4I4dddc24c24I4Bdddddc8"), // the three above together
        number("HELD_BY_ONE_BYTES", 26 + 60 + 77),
        number("HELD_BY_ONE_AT", 26 + 60 + 1), // where the holder's id begins
        format("GRANT_MESSAGE", "<c1dc8ddd"),
        format("HEX", "%08x%08x%08x%08x"), // sixteen times %02x would take four times as long
        format("QUEUE", "<I4ddc24c24"),
        number("QUEUE_BYTES", 68),
        format("TOMBSTONE", "<c16dd"),
        number("TOMBSTONE_BYTES", 32),
        format("WAITER", "<dc24c24I4I4ddc8"),
        number("WAITER_BYTES", 88),
    ]
});

/// One script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Takes the lock, or joins its queue.
    Acquire,
    /// Takes over a lease that was handed out.
    Adopt,
    /// Whether the server has forgotten anything.
    BootRecord,
    /// A waiter leaves.
    Cancel,
    /// A reader becomes the writer, or a writer a reader.
    ChangeMode,
    /// Raises a hold's token.
    Commit,
    /// A holder changes what it says of itself.
    Describe,
    /// Who holds and who waits.
    Inspect,
    /// Which node of a quorum it is, and who uses it so.
    Nodes,
    /// Takes a plain lock.
    PlainAcquire,
    /// Takes over the lease of a plain lock.
    PlainAdopt,
    /// The holder of a plain lock changes what it says of itself.
    PlainDescribe,
    /// What stands under the key of a plain lock.
    PlainInspect,
    /// Ends the hold of a plain lock.
    PlainRelease,
    /// Moves the ends of plain locks on.
    PlainRenew,
    /// An operator ends the hold of a plain lock.
    PlainRevoke,
    /// Confirms a grant, or keeps a place.
    Poll,
    /// A holder takes back what was forgotten.
    Reclaim,
    /// Ends a hold and hands it on.
    Release,
    /// Moves deadlines on.
    Renew,
    /// An operator ends a hold.
    Revoke,
    /// An operator changes a capacity.
    SetCapacity,
}

static TEXTS: LazyLock<[ScriptText; Script::ALL.len()]> =
    LazyLock::new(|| Script::ALL.map(|script| ScriptText::new(script.assemble(CLOCK))));

impl Script {
    /// Every script there is: what to load into a server.
    pub const ALL: [Self; 22] = [
        Self::Acquire,
        Self::Adopt,
        Self::BootRecord,
        Self::Cancel,
        Self::ChangeMode,
        Self::Commit,
        Self::Describe,
        Self::Inspect,
        Self::Nodes,
        Self::PlainAcquire,
        Self::PlainAdopt,
        Self::PlainDescribe,
        Self::PlainInspect,
        Self::PlainRelease,
        Self::PlainRenew,
        Self::PlainRevoke,
        Self::Poll,
        Self::Reclaim,
        Self::Release,
        Self::Renew,
        Self::Revoke,
        Self::SetCapacity,
    ];

    /// As a server is given it.
    pub fn text(self) -> &'static ScriptText {
        &TEXTS[self as usize]
    }

    /// What to give to SCRIPT LOAD.
    pub fn source(self) -> &'static str {
        &self.text().source
    }

    /// What to give to EVALSHA: 40 hex digits.
    pub fn sha1(self) -> &'static str {
        &self.text().sha1
    }

    /// The whole text, with this line as its clock. Only a test brings another than [`CLOCK`].
    pub fn assemble(self, clock: &str) -> String {
        let mut whole = String::new();
        for line in self.file().lines() {
            match line.strip_prefix(INCLUDE) {
                Some("clock") => whole.push_str(clock),
                Some(name) => whole.push_str(shared(name)),
                None => {
                    whole.push_str(line);
                    whole.push('\n');
                }
            }
        }
        write_constants(&whole)
    }

    const fn file(self) -> &'static str {
        match self {
            Self::Acquire => include_str!("lua/acquire.lua"),
            Self::Adopt => include_str!("lua/adopt.lua"),
            Self::BootRecord => include_str!("lua/boot_record.lua"),
            Self::Cancel => include_str!("lua/cancel.lua"),
            Self::ChangeMode => include_str!("lua/change_mode.lua"),
            Self::Commit => include_str!("lua/commit.lua"),
            Self::Describe => include_str!("lua/describe.lua"),
            Self::Inspect => include_str!("lua/inspect.lua"),
            Self::Nodes => include_str!("lua/nodes.lua"),
            Self::PlainAcquire => include_str!("lua/plain_acquire.lua"),
            Self::PlainAdopt => include_str!("lua/plain_adopt.lua"),
            Self::PlainDescribe => include_str!("lua/plain_describe.lua"),
            Self::PlainInspect => include_str!("lua/plain_inspect.lua"),
            Self::PlainRelease => include_str!("lua/plain_release.lua"),
            Self::PlainRenew => include_str!("lua/plain_renew.lua"),
            Self::PlainRevoke => include_str!("lua/plain_revoke.lua"),
            Self::Poll => include_str!("lua/poll.lua"),
            Self::Reclaim => include_str!("lua/reclaim.lua"),
            Self::Release => include_str!("lua/release.lua"),
            Self::Renew => include_str!("lua/renew.lua"),
            Self::Revoke => include_str!("lua/revoke.lua"),
            Self::SetCapacity => include_str!("lua/set_capacity.lua"),
        }
    }
}

/// An unknown name gives nothing, and the script fails its first test.
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
            let constant = CONSTANTS.iter().find(|(name, _)| *name == word);
            written.push_str(before);
            written.push_str(constant.map_or(word, |(_, value)| value));
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
            for line in script.file().lines() {
                if let Some(name) = line.strip_prefix(INCLUDE) {
                    assert!(name == "clock" || !shared(name).is_empty(), "{script:?}: {name}");
                }
            }
        }
    }

    #[test]
    fn constants_are_written_as_values_and_other_words_stay() {
        let text = "if a.NEVER_MIND == KEPT or KEYS[1] then b = 'x'..NOBODY end -- KEPT\n";
        let nobody = r"\0".repeat(24);
        let expected =
            format!("if a.NEVER_MIND == 1 or KEYS[1] then b = 'x'..'{nobody}' end -- KEPT\n");
        assert_eq!(write_constants(text), expected);
    }

    #[test]
    fn each_script_reads_the_clock_once() {
        for script in Script::ALL {
            assert_eq!(script.source().matches("'TIME'").count(), 1, "{script:?}");
        }
    }

    #[test]
    fn a_full_server_blocks_no_unlock() {
        for script in Script::ALL {
            let flags = script.source().lines().next().unwrap();
            let looks = matches!(script, Script::Inspect | Script::PlainInspect);
            assert_eq!(script.text().is_read_only, looks);
            match script {
                Script::Acquire
                | Script::Adopt
                | Script::Describe
                | Script::PlainAcquire
                | Script::PlainAdopt
                | Script::PlainDescribe
                | Script::Reclaim => assert_eq!(flags, "#!lua"),
                Script::Inspect | Script::PlainInspect => {
                    assert_eq!(flags, "#!lua flags=no-writes");
                }
                Script::BootRecord
                | Script::Cancel
                | Script::ChangeMode
                | Script::Commit
                | Script::Nodes
                | Script::PlainRelease
                | Script::PlainRenew
                | Script::PlainRevoke
                | Script::Poll
                | Script::Release
                | Script::Renew
                | Script::Revoke
                | Script::SetCapacity => assert_eq!(flags, "#!lua flags=allow-oom"),
            }
        }
    }
}
