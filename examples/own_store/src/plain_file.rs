//! The file: a number, and the name and the record of each lock, each after its length.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use leasehold::LockName;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::store::protocol::Record;

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The number from which all tokens are drawn. It must never go back.
    pub(crate) counter: u64,
    /// The records of the names that are in use.
    pub(crate) records: BTreeMap<LockName, Record>,
}

/// Reads the file. If there is none, nothing was ever locked.
pub(crate) fn load(path: &Path) -> Result<Contents, StoreError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
        read => read.map_err(|error| failed(path, error))?,
    };
    let (counter, mut rest) = bytes.split_first_chunk().ok_or_else(|| damaged(path))?;
    let (counter, mut records) = (u64::from_le_bytes(*counter), BTreeMap::new());
    while !rest.is_empty() {
        let (name, record) = entry(&mut rest).ok_or_else(|| damaged(path))?;
        let name = LockName::new(name).map_err(|_| damaged(path))?;
        let record = Record::from_text(record).map_err(|unreadable| {
            let text = format!("{}: {:?}: {unreadable}", path.display(), name.as_str());
            StoreError::new(StoreErrorKind::Corrupt, text)
        })?;
        records.insert(name, record);
    }
    Ok(Contents { counter, records })
}

/// Replaces the file. If a crash comes in between, the file has either all of the old contents or
/// all of the new.
pub(crate) fn save(path: &Path, contents: &Contents) -> Result<(), StoreError> {
    let new = path.with_extension("new");
    let written = write(&new, contents).and_then(|()| {
        fs::rename(&new, path)?;
        // The directory must be synced, too, because it names the new file.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    });
    written.map_err(|error| failed(path, error).maybe_executed())
}

fn write(path: &Path, Contents { counter, records }: &Contents) -> io::Result<()> {
    let mut bytes = counter.to_le_bytes().to_vec();
    for (name, record) in records {
        for part in [name.as_str(), &record.to_text()] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part.as_bytes());
        }
    }
    let mut file = File::create(path)?;
    file.write_all(&bytes)?;
    file.sync_all()
}

/// The next name and record.
fn entry<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, &'a str)> {
    Some((part(rest)?, part(rest)?))
}

fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let (length, behind) = rest.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (part, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    str::from_utf8(part).ok()
}

fn damaged(path: &Path) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("{} is damaged", path.display()))
}

fn failed(path: &Path, error: io::Error) -> StoreError {
    let text = format!("{}: {error}", path.display());
    StoreError::new(StoreErrorKind::Unreachable, text).with_source(error)
}
