//! Checks that a path still leads to the same database for all processes.
//!
//! Two databases under one path would be two locks under one name. So the database has a random
//! number. The file of the write lock records that number, the files that belong together, and the
//! clock of the leases. Each process that opens the store compares this record with what it finds.
//! If they differ and no other process uses the store, the process corrects the record. If another
//! process uses it, the store is refused. In every transaction the paths must lead to the open
//! files: a process whose files were removed notices that, and loses its leases.

use std::io;
use std::str::FromStr;

use leasehold_core::StoreError;

use super::clients::Liveness;
use super::database::{Database, MAX_NUMBER};
use super::place::{self, Files, Location, Users, WriteLock};

/// The facts about a database in the file of its write lock.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    /// The database's number.
    number: u64,
    /// The inodes of the database, its log and its shared memory.
    inodes: [u64; 3],
    /// The start of the machine, and with it the clock of the leases.
    boot: String,
}

impl Identity {
    fn text(&self) -> String {
        let Self { number, inodes: [database, log, shared_memory], boot } = self;
        format!("{number} {database} {log} {shared_memory} {boot}\n")
    }
}

impl FromStr for Identity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        // A text without its end was cut off while it was written.
        let mut parts = text.strip_suffix('\n').ok_or(())?.splitn(5, ' ');
        let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or(());
        let (number, inodes) = (number()?, [number()?, number()?, number()?]);
        Ok(Self { number, inodes, boot: parts.next().ok_or(())?.to_owned() })
    }
}

/// A store that is being opened, with the write lock held.
pub(super) struct Opening<'a> {
    pub(super) location: &'a Location,
    pub(super) write_lock: &'a WriteLock,
    pub(super) liveness: &'a Liveness,
    pub(super) users: &'a Users,
    pub(super) boot: &'a str,
}

impl Opening<'_> {
    /// The check before any file is opened. While others have the database open, the path must lead
    /// to the database that they use.
    pub(super) fn join_others(&self) -> Result<(), StoreError> {
        if !self.are_others()? {
            return Ok(());
        }
        let found = Files::at(self.location).ok();
        match (self.written()?, found) {
            (Some(written), Some((found, _))) if written.inodes == found.inodes() => {
                self.refuse_other_clock(&written)
            }
            _ => Err(self.location.replaced()),
        }
    }

    /// The check once the database is open. If the database and the lock's file do not agree, the
    /// store is refused while others use it. Returns the files that are open.
    pub(super) fn agree(&self, database: &mut Database) -> Result<Files, StoreError> {
        let failed = |error| self.location.io_error("look at it", error);
        let (files, _) = Files::at(self.location).map_err(failed)?;
        if files.write_lock != place::id(&self.write_lock.metadata().map_err(failed)?) {
            return Err(self.location.replaced());
        }
        let written = self.written()?;
        let found = Identity {
            number: database.identity()?,
            inodes: files.inodes(),
            boot: self.boot.to_owned(),
        };
        if written.as_ref() == Some(&found) {
            return Ok(files);
        }
        if self.is_anyone_there()? {
            written.map_or(Ok(()), |written| self.refuse_other_clock(&written))?;
            return Err(self.location.replaced());
        }
        // The database gets a new number, so that none of its earlier lock files agrees with it any
        // more.
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| failed(io::Error::other(error.to_string())))?;
        let number = u64::from_ne_bytes(bytes) & MAX_NUMBER;
        database.set_identity(number)?;
        let text = Identity { number, ..found }.text();
        let failed = |error| self.location.io_error("write to its lock's file", error);
        self.write_lock.write(&text).map_err(failed)?;
        Ok(files)
    }

    /// Whether anybody else has the database open, or a lease in it: the guardian of a process that
    /// has gone may keep the process's pipe open.
    pub(super) fn is_anyone_there(&self) -> Result<bool, StoreError> {
        let failed = |error| self.location.io_error("look beside it", error);
        Ok(self.are_others()? || self.liveness.is_anyone_alive().map_err(failed)?)
    }

    fn are_others(&self) -> Result<bool, StoreError> {
        let failed = |error| self.location.io_error("ask who has it open", error);
        self.users.are_others().map_err(failed)
    }

    fn written(&self) -> Result<Option<Identity>, StoreError> {
        let failed = |error| self.location.io_error("read its lock's file", error);
        Ok(self.write_lock.read().map_err(failed)?.parse().ok())
    }

    fn refuse_other_clock(&self, written: &Identity) -> Result<(), StoreError> {
        match written.boot == self.boot {
            true => Ok(()),
            false => Err(self.location.other_clock()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_write_locks_file_says_survives_its_text_and_half_of_it_says_nothing() {
        for boot in ["", "1b4e28ba", "1b4e28ba boottime 3 0"] {
            let identity = Identity { number: 7, inodes: [1, 2, u64::MAX], boot: boot.into() };
            let text = identity.text();
            assert_eq!(text.parse(), Ok(identity));
            for end in 0..text.len() {
                assert_eq!(text[..end].parse::<Identity>(), Err(()));
            }
        }
    }
}
