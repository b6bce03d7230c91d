//! The requested lock and its options, its default label, and the wait for it.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use leasehold::admin::{HoldState, Holder, HolderInfo};
use leasehold::lease::Mode;
use leasehold::time::show_duration;
use leasehold::{Client, Error, Guard, LeaseOptions, Lock};

use super::describe::{blocker, holder, joined};
use crate::args::LockArgs;
use crate::moment::{day_and_time, millis, now_ms};
use crate::report::{BUSY, Failure};

/// How much longer a lease lasts than `--max-hold` plus the time between TERM and KILL: 5 s. On a
/// busy machine, a command may start late, and finding its processes may take long. If the command
/// ends sooner, the lease is released sooner.
const ENDING: Duration = Duration::from_secs(5);

/// Makes and checks the options of a lease. The work under the lease is ended after `--max-hold`;
/// the lease lasts until the work has ended, which may take a while.
///
/// # Errors
///
/// If a value is out of range. Then nothing was sent.
pub(crate) fn lease_options(
    args: &LockArgs,
    kill_after: Duration,
    usual_label: Option<String>,
) -> Result<LeaseOptions, Failure> {
    let options = LeaseOptions {
        ttl: args.ttl,
        min_hold: args.min_hold()?,
        max_hold: args.max_hold.as_ref().map(|limit| limit.span + kill_after + ENDING),
        label: args.label.clone().or(usual_label),
        ..LeaseOptions::default()
    };
    options.check()?;
    Ok(options)
}

/// The requested lock.
pub(super) fn requested(client: &Client, args: &LockArgs) -> Result<Lock, Failure> {
    match (args.names.as_slice(), args.mode()) {
        ([name], Mode::Permits { count, capacity }) => {
            Ok(client.semaphore(name, capacity).permits(count))
        }
        ([name], Mode::Shared) => Ok(client.rwlock(name).read()),
        ([name], _) => Ok(client.mutex(name)),
        (names, Mode::Exclusive) => Ok(client.multi(names)),
        _ => Err(Failure::usage(
            "several names are taken exclusively: give --shared and --permits with one name",
        )),
    }
}

/// Acquires the lock, and waits for as long as the options allow.
pub(super) async fn acquire(
    lock: &Lock,
    args: &LockArgs,
    limit: Option<Duration>,
    client: &Client,
) -> Result<Guard, Failure> {
    let busy_exit = args.busy_exit.unwrap_or(BUSY);
    let granted = match (args.no_wait, limit) {
        (true, _) => match lock.try_acquire().await.transpose() {
            Some(granted) => granted,
            None => return Err(busy(args, client).await),
        },
        (false, Some(limit)) => lock.acquire_within(limit).await,
        (false, None) => lock.acquire().await,
    };
    granted.map_err(|error| match error {
        Error::Timeout { name, waited, holder: first, others, .. } => {
            let by = first.map(|first| format!(", {}", holder(&first, others as usize)));
            let (waited, by) = (show_duration(waited), by.unwrap_or_default());
            Failure::expected(busy_exit, format!("{name}: still busy after {waited}{by}"))
        }
        Error::AlreadyDone { name, last, next_in, .. } => {
            let (exit, next_ms) = (args.busy_exit.unwrap_or_default(), now_ms() + millis(next_in));
            let next = day_and_time(next_ms);
            Failure::skipped(exit, format!("{name}: {last}; next from {next}"))
        }
        other => other.into(),
    })
}

async fn busy(args: &LockArgs, client: &Client) -> Failure {
    // The lock may be free again by now, or the store may not answer. The refusal still counts.
    for name in &args.names {
        let status = client.admin().inspect(name).await.unwrap_or_default();
        let Some(why) = blocker(args.mode(), &status) else { continue };
        let (why, exit) = (format!("{name} is busy: {why}"), args.busy_exit.unwrap_or(BUSY));
        // A job that is started again after a failure does not run, and the user learns why.
        return match status.holders.iter().find(|it| it.state == HoldState::Cooldown) {
            Some(Holder { id, .. }) => {
                Failure::skipped(exit, format!("{why}; to end that: leasehold revoke {name} {id}"))
            }
            None => Failure::expected(exit, why),
        };
    }
    Failure::expected(args.busy_exit.unwrap_or(BUSY), format!("{} is busy", joined(&args.names)))
}

/// The variable with the name of the pod, which Kubernetes' downward API usually sets.
const POD: &str = "POD_NAME";

/// The command that runs and the pod. The arguments are left out, because they may contain secrets.
pub(crate) fn label_of_command(command: &[OsString]) -> Option<String> {
    let name = Path::new(command.first()?).file_name()?.to_string_lossy().into_owned();
    fit(with_pod(name, std::env::var(POD).ok()))
}

/// The program that has started this one: for example a script, which is the real holder of the
/// lease.
pub(crate) fn label_of_caller() -> Option<String> {
    let caller = rustix::process::getppid()?;
    let name = std::fs::read_to_string(format!("/proc/{}/comm", caller.as_raw_nonzero())).ok()?;
    fit(with_pod(name.trim_end().to_owned(), std::env::var(POD).ok()))
}

fn with_pod(name: String, pod: Option<String>) -> String {
    pod.filter(|pod| !pod.is_empty()).map_or(name.clone(), |pod| format!("{name} in {pod}"))
}

/// Returns the label unless a store would refuse it: the user did not choose this label, so it must
/// not cause an error.
fn fit(label: String) -> Option<String> {
    let is_sound = HolderInfo::new("", 0).with_label(Some(label.clone())).check().is_ok();
    // The store shows the name of the machine next to the label.
    (is_sound && label.len() <= 256).then_some(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_nobody_gave_is_the_command_without_its_arguments() {
        let of = |words: &[&str]| {
            label_of_command(&words.iter().map(OsString::from).collect::<Vec<_>>())
        };
        assert_eq!(of(&["/usr/bin/tar", "--password=hunter"]).as_deref(), Some("tar"));
        assert_eq!(of(&["./re\u{7}port.sh"]), None, "a control character");
        assert_eq!(of(&[&"x".repeat(300)]), None, "too long");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn in_a_pod_its_name_is_a_part_of_the_label() {
        let with = |pod: &str| with_pod("job".to_owned(), Some(pod.to_owned()));
        assert_eq!((with("web-0"), with("")), ("job in web-0".to_owned(), "job".to_owned()));
    }
}
