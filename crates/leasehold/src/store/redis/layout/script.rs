//! The scripts: they are assembled from their files once, and named by the SHA-1 that EVALSHA
//! takes.
//!
//! A new script is a file of `lua/` and a line in the table below. A file names the shared files
//! that it includes: a line `--@include gate` stands for the text of `lua/gate.lua`. So shared code
//! exists only once, and a script can serve what is quick before Lua has to build the functions of
//! the general code. Names of constants are replaced by their values; a constant of the model gets
//! its value from the model.

use std::time::Duration;

use leasehold_core::model::{self, Times};
use leasehold_core::{LOCK_CAPACITY, bugs};
use once_cell::race::OnceBox;

use super::plain::value;
use super::redisson::{PEEK_LIMIT, WATCHDOG};
use crate::store::redis::connection::call::{Own, ScriptText};

/// How long a list of the nodes of a quorum counts as in use after somebody left it: 5 min.
pub(crate) const LIST_LIFE: Duration = Duration::from_mins(5);

const INCLUDE: &str = "--@include ";

/// The line of a script that may grant.
const GUARD: &str = "--@include guard";

/// The longest time that a script takes: 31 years, so that no sum of times comes near 2⁵³.
pub(super) const MAX_SPAN_MS: u64 = 1_000_000_000_000;

/// The files that others include, by their names: `lua/NAME.lua`.
macro_rules! shared {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("lua/", $name, ".lua")))),*] };
}

const SHARED: [(&str, &str); 13] = shared! {
    "attempt", "boot", "clock", "counter", "finish", "gate", "guard", "lease", "plain/value",
    "redisson/lock", "serve", "share", "unguarded"
};

/// A word in capitals that stands for a value, and the value in Lua's notation.
type Constant = (&'static str, String);

/// All texts. Threads that need them at the same time each make them, and none waits for another: a
/// child that is forked at that moment does not have that other thread.
static TEXTS: OnceBox<Texts> = OnceBox::new();

/// The text of each script.
type Texts = [ScriptText; Script::ALL.len()];

/// Numbers of the model, which is the only place that defines them, and formats of packed values.
fn constants() -> Vec<Constant> {
    let Times { closed_ms, grace_ms, ask_ms, queue_ms, window_ms } = Times::USUAL;
    let span = |name, span: Duration| (name, span.as_micros().to_string());
    let number = |name, number: u64| (name, number.to_string());
    vec![
        span("BALLOT_LEAD", model::BALLOT_LEAD),
        span("LIST_LIFE", LIST_LIFE),
        number("ASK", ask_ms),
        number("BATCH", model::BATCH as u64),
        number("CLOSED", closed_ms),
        number("GRACE", grace_ms),
        number("LOCK_CAPACITY", LOCK_CAPACITY.into()),
        number("MAX_CLOSED", model::MAX_CLOSED as u64),
        number("MAX_WAITING", model::MAX_WAITING as u64),
        number("PEEK_LIMIT", PEEK_LIMIT.into()),
        number("PLAIN_BYTES", value::MAX_VALUE_BYTES as u64),
        number("QUEUE", queue_ms),
        number("SPAN_MAX", MAX_SPAN_MS * 1_000),
        number("WATCHDOG", WATCHDOG.as_millis() as u64),
        number("WINDOW", window_ms),
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
    /// Checks whether the server has forgotten anything.
    BootRecord: "boot_record", Frees;
    /// Draws numbers.
    Draw: "draw", Adds;
    /// Ends holds and waits, and hands the names on.
    End: "end", Frees;
    /// Ends a hold by the key of its gate alone: it grants nothing, so it has no guard.
    EndAlone: "end", Frees;
    /// Renews, claims and describes holds.
    Keep: "keep", Frees;
    /// Reads the holders and the waiters.
    Look: "look", Reads;
    /// Reads and writes the id of a node of a quorum, and its clients' lists of nodes.
    Nodes: "nodes", Frees;
    /// Ends the hold of a plain lock.
    PlainEnd: "plain/end", Frees;
    /// Extends the leases of plain locks, and changes the facts about their holders.
    PlainKeep: "plain/keep", Frees;
    /// Reads the value of a plain lock.
    PlainLook: "plain/look", Reads;
    /// Ends the hold of a plain lock, for an operator.
    PlainRevoke: "plain/revoke", Frees;
    /// Takes a plain lock, or takes its lease over.
    PlainTake: "plain/take", Adds;
    /// Ends a hold of a lock of Redisson.
    RedissonEnd: "redisson/end", Frees;
    /// Extends the leases of locks of Redisson, and changes the facts about their holders.
    RedissonKeep: "redisson/keep", Frees;
    /// Reads the holders of a lock of Redisson.
    RedissonLook: "redisson/look", Reads;
    /// Ends a hold of a lock of Redisson, for an operator.
    RedissonRevoke: "redisson/revoke", Frees;
    /// Takes a lock of Redisson, or takes its lease over.
    RedissonTake: "redisson/take", Adds;
    /// Ends a hold, for an operator.
    Revoke: "revoke", Frees;
    /// Draws numbers for names that are set in front of it.
    Set: "draw", Adds;
    /// Takes the lock, or joins its queue.
    Take: "take", Adds;
}

fn make_texts() -> Texts {
    let constants = constants();
    Script::ALL.map(|script| {
        let mut text = ScriptText::new(script.assemble(false, &constants));
        text.own = script.own();
        text.sets = script == Script::Set;
        if script.file().contains(GUARD) && script != Script::EndAlone {
            text.guarded = Some(Box::new(ScriptText::new(script.assemble(true, &constants))));
        }
        text
    })
}

impl Script {
    /// What names do not share, if one call can serve many of them.
    const fn own(self) -> Option<Own> {
        match self {
            Self::End => Some(Own { args: 2, of: 4 }),
            Self::Keep => Some(Own { args: 3, of: 3 }),
            Self::Set => Some(Own { args: 4, of: 4 }),
            _ => None,
        }
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

    fn assemble(self, is_guarded: bool, constants: &[Constant]) -> String {
        let mut whole = self.access().flags().to_owned();
        include(&mut whole, self.file(), is_guarded);
        write_constants(&whole, constants)
    }
}

/// Adds a file with all its includes. The clock is read once.
fn include(whole: &mut String, file: &str, is_guarded: bool) {
    for line in file.lines() {
        match line.trim_start().strip_prefix(INCLUDE) {
            Some("clock") if whole.contains(shared("clock")) => {}
            Some("guard") if !is_guarded => whole.push_str(shared("unguarded")),
            Some(name) => include(whole, shared(name), is_guarded),
            None => {
                whole.extend([bugs::patched(line)]);
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
fn write_constants(text: &str, constants: &[Constant]) -> String {
    let ends_word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let value =
        |word| constants.iter().find_map(|(name, value)| (*name == word).then_some(&**value));
    let mut written = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (code, comment) = line.split_at(line.find("--").unwrap_or(line.len()));
        for piece in code.split_inclusive(ends_word) {
            let (word, end) = piece.split_at(piece.find(ends_word).unwrap_or(piece.len()));
            written.extend([value(word).unwrap_or(word), end]);
        }
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
            if let Some(name) = line.trim_start().strip_prefix(INCLUDE) {
                assert!(!shared(name).is_empty(), "{name}");
            }
        }
    }

    #[cfg(leasehold_test_bugs)]
    #[test]
    fn each_line_that_a_named_bug_replaces_is_in_a_script() {
        let files = Script::ALL.map(Script::file).into_iter();
        let lines = files.chain(SHARED.map(|(_, text)| text)).flat_map(str::lines);
        let lines: Vec<&str> = lines.collect();
        for (bug, right, _) in bugs::PATCHES {
            let found = lines.iter().filter(|line| line.contains(right)).count();
            assert_eq!(found, 1, "{bug:?}: {right}");
        }
    }

    #[test]
    fn constants_are_written_as_values_and_other_words_stay() {
        let text = "if a.GRACES == GRACE or KEYS[1] then b = 'BATCH' end -- GRACE\n";
        let expected = "if a.GRACES == 60000 or KEYS[1] then b = '16' end -- GRACE\n";
        assert_eq!(write_constants(text, &constants()), expected);
    }

    #[test]
    fn each_script_reads_the_clock_once() {
        let texts = Script::ALL.map(Script::text);
        for text in texts.iter().flat_map(|text| [Some(*text), text.guarded.as_deref()]).flatten() {
            assert!(text.source.matches("'TIME'").count() <= 1, "{}", text.source);
        }
    }

    #[test]
    fn a_full_server_blocks_no_unlock_and_grants_nothing_and_only_a_look_writes_nothing() {
        use Script::{Draw, Look, PlainLook, PlainTake, RedissonLook, RedissonTake, Set, Take};
        let grants = [Draw, PlainTake, RedissonTake, Set, Take];
        for script in Script::ALL {
            let looks = [Look, PlainLook, RedissonLook].contains(&script);
            let frees = script.source().starts_with("#!lua flags=allow-oom\n");
            let is_grant = script.source().starts_with("#!lua\n");
            assert_eq!(script.text().is_read_only, looks, "{script:?}");
            assert_eq!((is_grant, frees), (grants.contains(&script), !is_grant && !looks));
        }
    }
}
