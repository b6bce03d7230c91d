//! The label of a lease for which the user gave none: what an operator who looks wants to know.

use std::ffi::OsString;
use std::path::Path;

use leasehold::admin::HolderInfo;

/// The pod that this runs in, as Kubernetes' downward API is usually told to say it.
const POD: &str = "POD_NAME";

/// The command that runs, without its arguments, in which secrets may stand, and the pod.
pub(crate) fn of_command(command: &[OsString]) -> Option<String> {
    let name = Path::new(command.first()?).file_name()?.to_string_lossy().into_owned();
    fit(with_pod(name, std::env::var(POD).ok()))
}

/// The program that has started this one: a script, say, which holds the lease in fact.
pub(crate) fn of_caller() -> Option<String> {
    let caller = rustix::process::getppid()?;
    let name = std::fs::read_to_string(format!("/proc/{}/comm", caller.as_raw_nonzero())).ok()?;
    fit(with_pod(name.trim_end().to_owned(), std::env::var(POD).ok()))
}

fn with_pod(name: String, pod: Option<String>) -> String {
    match pod.filter(|pod| !pod.is_empty()) {
        Some(pod) => format!("{name} in {pod}"),
        None => name,
    }
}

/// The user has not chosen the label, so one that a store refuses is left out.
fn fit(label: String) -> Option<String> {
    let is_sound = HolderInfo::new("", 0).with_label(Some(label.clone())).check().is_ok();
    // Beside it stands the name of the machine.
    (is_sound && label.len() <= 256).then_some(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_nobody_gave_is_the_command_without_its_arguments() {
        let of = |words: &[&str]| of_command(&words.iter().map(OsString::from).collect::<Vec<_>>());
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
