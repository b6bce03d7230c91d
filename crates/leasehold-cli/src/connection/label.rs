//! The default label of a lease, if the user gave none: the program and the pod, for operators.

use std::ffi::OsString;
use std::path::Path;

use leasehold::admin::HolderInfo;

/// The variable with the name of the pod, which Kubernetes' downward API usually sets.
const POD: &str = "POD_NAME";

/// The command that runs and the pod. The arguments are left out, because they may contain secrets.
pub(crate) fn of_command(command: &[OsString]) -> Option<String> {
    let name = Path::new(command.first()?).file_name()?.to_string_lossy().into_owned();
    fit(with_pod(name, std::env::var(POD).ok()))
}

/// The program that has started this one: for example a script, which is the real holder of the
/// lease.
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
