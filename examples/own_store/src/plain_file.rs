//! The file: the name and the record of each lock, each after its length.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use leasehold::LockName;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::store::protocol::Record;

/// Reads all records. If there is no file, there are none.
pub(crate) fn load(path: &Path) -> Result<BTreeMap<LockName, Record>, StoreError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        read => read.map_err(|error| failed(path, error))?,
    };
    let (mut records, mut rest) = (BTreeMap::new(), &bytes[..]);
    while !rest.is_empty() {
        let (name, record) = entry(&mut rest).ok_or_else(|| damaged(path))?;
        let name = LockName::new(String::from_utf8_lossy(name)).map_err(|_| damaged(path))?;
        let record = Record::from_bytes(record).map_err(|unreadable| {
            let text = format!("{}: {:?}: {unreadable}", path.display(), name.as_str());
            StoreError::new(unreadable.kind(), text)
        })?;
        records.insert(name, record);
    }
    Ok(records)
}

/// Replaces the file. If a crash comes in between, the file has either all of the old records or
/// all of the new.
pub(crate) fn save(path: &Path, records: &BTreeMap<LockName, Record>) -> Result<(), StoreError> {
    let new = path.with_extension("new");
    let written = write(&new, records).and_then(|()| {
        fs::rename(&new, path)?;
        // The directory must be synced, too, because it names the new file.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    });
    written.map_err(|error| failed(path, error).maybe_executed())
}

fn write(path: &Path, records: &BTreeMap<LockName, Record>) -> io::Result<()> {
    let mut bytes = Vec::new();
    for (name, record) in records {
        for part in [name.as_str().as_bytes(), &record.to_bytes()] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part);
        }
    }
    let mut file = File::create(path)?;
    file.write_all(&bytes)?;
    file.sync_all()
}

/// The next name and record.
fn entry<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    Some((part(rest)?, part(rest)?))
}

fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (part, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    Some(part)
}

fn damaged(path: &Path) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("{} is damaged", path.display()))
}

fn failed(path: &Path, error: io::Error) -> StoreError {
    let text = format!("{}: {error}", path.display());
    StoreError::new(StoreErrorKind::Unreachable, text).with_source(error)
}
