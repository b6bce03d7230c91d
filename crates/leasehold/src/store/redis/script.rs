//! The scripts: put together from their files once, and named by their SHA-1 as EVALSHA wants it.
//!
//! A file of `lua/` that is an operation begins with its flags and says where shared files belong:
//! a line `--@include record` stands for the text of `lua/record.lua`. Shared code therefore exists
//! once, and an operation can do its most frequent case before Lua has to build the functions of
//! the general one.

use std::sync::LazyLock;

use sha1_smol::Sha1;

/// The line of Lua that reads the server's clock.
pub const CLOCK: &str = include_str!("lua/clock.lua");

const INCLUDE: &str = "--@include ";

/// The shared files, each under the name it is included by. The clock is not among them, so that
/// a test can bring its own.
const SHARED: [(&str, &str); 4] = [
    ("grant", include_str!("lua/grant.lua")),
    ("hold", include_str!("lua/hold.lua")),
    ("queue", include_str!("lua/queue.lua")),
    ("record", include_str!("lua/record.lua")),
];

/// One script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Takes the lock, or joins its queue.
    Acquire,
    /// A waiter leaves.
    Cancel,
    /// A reader becomes the writer, or a writer a reader.
    ChangeMode,
    /// Who holds and who waits.
    Inspect,
    /// Confirms a grant, or keeps a place.
    Poll,
    /// Ends a hold and hands it on.
    Release,
    /// Moves deadlines on.
    Renew,
    /// An operator ends a hold.
    Revoke,
}

struct Assembled {
    source: String,
    sha1: String,
}

static ASSEMBLED: LazyLock<[Assembled; Script::ALL.len()]> = LazyLock::new(|| {
    Script::ALL.map(|script| {
        let source = script.assemble(CLOCK);
        let sha1 = Sha1::from(&source).digest().to_string();
        Assembled { source, sha1 }
    })
});

impl Script {
    /// Every script there is: what to load into a server.
    pub const ALL: [Self; 8] = [
        Self::Acquire,
        Self::Cancel,
        Self::ChangeMode,
        Self::Inspect,
        Self::Poll,
        Self::Release,
        Self::Renew,
        Self::Revoke,
    ];

    /// What to give to SCRIPT LOAD.
    pub fn source(self) -> &'static str {
        &ASSEMBLED[self as usize].source
    }

    /// What to give to EVALSHA: 40 hex digits.
    pub fn sha1(self) -> &'static str {
        &ASSEMBLED[self as usize].sha1
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
        whole
    }

    const fn file(self) -> &'static str {
        match self {
            Self::Acquire => include_str!("lua/acquire.lua"),
            Self::Cancel => include_str!("lua/cancel.lua"),
            Self::ChangeMode => include_str!("lua/change_mode.lua"),
            Self::Inspect => include_str!("lua/inspect.lua"),
            Self::Poll => include_str!("lua/poll.lua"),
            Self::Release => include_str!("lua/release.lua"),
            Self::Renew => include_str!("lua/renew.lua"),
            Self::Revoke => include_str!("lua/revoke.lua"),
        }
    }
}

/// An unknown name gives nothing, and the script fails its first test.
fn shared(name: &str) -> &'static str {
    SHARED.iter().find_map(|(shared, text)| (*shared == name).then_some(*text)).unwrap_or_default()
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
    fn each_script_reads_the_clock_once() {
        for script in Script::ALL {
            assert_eq!(script.source().matches("'TIME'").count(), 1, "{script:?}");
        }
    }

    #[test]
    fn a_full_server_blocks_no_unlock() {
        for script in Script::ALL {
            let flags = script.source().lines().next().unwrap();
            match script {
                Script::Acquire => assert_eq!(flags, "#!lua"),
                Script::Inspect => assert_eq!(flags, "#!lua flags=no-writes"),
                Script::Cancel
                | Script::ChangeMode
                | Script::Poll
                | Script::Release
                | Script::Renew
                | Script::Revoke => assert_eq!(flags, "#!lua flags=allow-oom"),
            }
        }
    }
}
