//! The accounts, the transfers that were booked, and what an auditor finds in them.

use std::fmt;

use leasehold_testkit::{Postgres, must};

use super::{ACCOUNTS, BRANCHES, LEVELS, START};

/// The findings at one isolation level.
#[derive(Debug)]
pub(crate) struct Audit {
    level: &'static str,
    pub(crate) transfers: u64,
    /// Transfers that were booked after one with a higher token: their holder had been overtaken.
    pub(crate) overtaken: u64,
    /// Accounts whose balance does not match their transfers: an update was lost.
    pub(crate) wrong: u64,
}

/// The name of a branch, which is the name of its lock as well.
pub(super) fn branch(level: &str, number: u32) -> String {
    format!("bank/{level}/{number}")
}

/// Opens the accounts.
pub(super) fn open(server: &Postgres) {
    let create = "CREATE SCHEMA bank; \
         CREATE TABLE bank.account (branch text, number int, balance bigint, \
                                    PRIMARY KEY (branch, number)); \
         CREATE TABLE bank.booking (id bigserial PRIMARY KEY, branch text, token bigint, \
                                    payer int, payee int, amount bigint)";
    must(server.query(create));
    for (level, number) in LEVELS.iter().flat_map(|level| (0..BRANCHES).map(move |at| (level, at)))
    {
        let branch = branch(level, number);
        must(server.query(&format!(
            "INSERT INTO bank.account SELECT '{branch}', n, {START} \
             FROM generate_series(0, {ACCOUNTS} - 1) n"
        )));
    }
}

/// Audits the books of one level.
///
/// A booking gets its number after the fence, or after the accounts were changed. Nobody else does
/// that before the commit, so the numbers of a branch are in the order of commits.
pub(super) fn audit(server: &Postgres, level: &'static str) -> Audit {
    let of_level = format!("branch LIKE 'bank/{level}/%'");
    let count = |sql: String| must(must(server.query(&sql)).trim().parse());
    Audit {
        level,
        transfers: count(format!("SELECT count(*) FROM bank.booking WHERE {of_level}")),
        overtaken: count(format!(
            "SELECT count(*) FROM (SELECT token, max(token) OVER (PARTITION BY branch ORDER BY id \
             ROWS UNBOUNDED PRECEDING) AS highest FROM bank.booking WHERE {of_level}) booked \
             WHERE token < highest"
        )),
        wrong: count(format!(
            "SELECT count(*) FROM bank.account WHERE {of_level} AND balance <> {START} + \
             (SELECT coalesce(sum(CASE WHEN payee = number THEN amount ELSE -amount END), 0) \
              FROM bank.booking WHERE booking.branch = account.branch \
              AND number IN (payer, payee))"
        )),
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, transfers, overtaken, wrong } = self;
        let accounts = BRANCHES * ACCOUNTS;
        write!(
            f,
            "  {level}: {transfers} transfers, {overtaken} of an overtaken holder, {wrong} of \
             {accounts} accounts wrong"
        )
    }
}
