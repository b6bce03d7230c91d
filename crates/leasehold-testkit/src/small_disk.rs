//! A small disk in memory, which a process can mount in its own mount namespace, and can fill.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::Command;

use crate::harness::must;
use crate::worker::Worker;

/// Lets a [`Worker`] do a job on a disk of this size. The disk's directory is the job's second
/// argument, and the job's temporary files are there. If mounting is not allowed, says so and skips
/// the job.
pub fn on_a_disk_of(size: &str, job: &str) {
    let directory = must(tempfile::tempdir());
    let directory = must(directory.path().to_str().ok_or("no text"));
    let mount =
        format!("mount -t tmpfs -o size={size} none {directory} && TMPDIR={directory} exec \"$@\"");
    let program = ["unshare", "--mount", "sh", "-c", &mount, "sh"];
    let tried = must(Command::new(program[0]).args(&program[1..]).arg("true").output());
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        println!("left out: mounting a disk is not allowed here: {why}");
        return;
    }
    Worker::start_by(&program, &[job, directory]).finish();
}

/// Writes a file until nothing fits any more.
pub fn fill(path: &Path) {
    let mut disk = must(File::create(path));
    for size in [1 << 16, 1 << 12, 1] {
        let full = loop {
            if let Err(error) = disk.write_all(&vec![b'x'; size]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
    }
}
