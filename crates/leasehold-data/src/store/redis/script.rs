//! The scripts: each consists of the shared files of `lua/` that it uses, followed by its own file.

use std::sync::LazyLock;

use leasehold::store::RedisScript;

/// Puts a script together: its flags, the clock, the code that reads the arguments, and the given
/// files.
macro_rules! script {
    ($flags:literal, $($file:literal),+) => {
        LazyLock::new(|| {
            RedisScript::new(concat!(
                "#!lua", $flags, "\n",
                include_str!("lua/clock.lua"),
                include_str!("lua/arguments.lua"),
                $(include_str!(concat!("lua/", $file, ".lua"))),+
            ))
        })
    };
}

/// Gives out order numbers.
pub(super) static NUMBERS: LazyLock<RedisScript> = script!("", "numbers");

/// Confirms or cancels orders of a stock, or reads it.
pub(super) static STOCK_SETTLE: LazyLock<RedisScript> =
    script!(" flags=allow-oom", "fence", "stock", "stock_settle");

/// Takes from a stock, or adds to it.
pub(super) static STOCK_TAKE: LazyLock<RedisScript> = script!("", "fence", "stock", "stock_take");

#[cfg(test)]
pub(super) fn all() -> [&'static RedisScript; 3] {
    [&NUMBERS, &STOCK_SETTLE, &STOCK_TAKE]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::REDIS_RIGHTS;

    #[test]
    fn each_script_reads_the_clock_once() {
        for script in all() {
            assert_eq!(script.source().matches("'TIME'").count(), 1, "{}", script.source());
        }
    }

    #[test]
    fn the_front_page_has_every_right() {
        let page = include_str!("../../../README.md");
        let known: Vec<&str> = page.split_whitespace().collect();
        assert!(REDIS_RIGHTS.split(' ').all(|right| known.contains(&right)));
    }

    #[test]
    fn the_rights_name_every_command_of_the_scripts() {
        const WORDS: [&str; 4] = ["BYSCORE", "CORRUPT", "COUNT", "LIMIT"];
        for script in all() {
            let code = script.source().lines().map(|line| line.split("--").next().unwrap());
            for word in code.flat_map(|code| code.split('\'').skip(1).step_by(2)) {
                let is_command = word.len() > 3 && word.bytes().all(|b| b.is_ascii_uppercase());
                let right = format!("+{}", word.to_lowercase());
                let is_named = REDIS_RIGHTS.split(' ').any(|named| named == right);
                assert!(!is_command || WORDS.contains(&word) || is_named, "{word}");
            }
        }
    }
}
