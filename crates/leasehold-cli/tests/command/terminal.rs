//! Terminals: which process has them, the effect of keys, and the line that is shown while waiting.

use std::fs::File;
use std::io::{Read, Write as _};
use std::process::ChildStdin;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Background, PATIENCE, PROGRAM, Place, until};

/// Prints whether the shell's process group has the terminal.
const IN_FRONT: &str = "set -- $(cat /proc/$$/stat); [ $5 = $8 ] && echo in front || echo behind";

/// The sequences that show a terminal's other screen, and the screen with the shell's lines again.
pub(crate) const ENTERS_ITS_SCREEN: &str = "\x1b[?1049h";
pub(crate) const LEAVES_ITS_SCREEN: &str = "\x1b[?1049l";

/// A program on a separate terminal, made by script(1).
pub(crate) struct Terminal {
    running: Background,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    pub(crate) fn start(place: &Place, command: &str) -> Self {
        let command = command.replace("leasehold ", &format!("{PROGRAM} "));
        let mut command = place.program("script", &["-qec", &command, "/dev/null"]);
        command.env("PS1", "$ ").env("SHELL", "/bin/sh");
        let mut running = Background::fed(command);
        let keys = running.child().stdin.take().unwrap();
        let mut shown = running.child().stdout.take().unwrap();
        let (show, screen) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = shown.read(&mut bytes) {
                // The test may not read any more.
                let _ = show.send(bytes[..count].to_vec());
            }
        });
        Self { running, keys, screen, seen: String::new() }
    }

    fn script(place: &Place, shell: &str, script: &str) -> Self {
        std::fs::write(place.path("script"), script).unwrap();
        Self::start(place, &format!("{shell} script"))
    }

    pub(crate) fn shell(place: &Place, line: &str) -> Self {
        let mut shell = Self::start(place, "bash --norc --noprofile -i");
        shell.until("$ ");
        shell.type_in(&format!("{line}\n"));
        shell
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the shell says that its job has stopped.
    fn stops(&mut self) {
        self.until("Stopped");
        self.until("$ ");
    }

    /// Types a line for cat, and waits for its echo and for cat's output. In between, leasehold may
    /// show a wait.
    fn cat(&mut self, line: &str) {
        self.type_in(&format!("{line}\n"));
        self.until(&format!("{line}\r\n"));
        self.until(&format!("{line}\r\n"));
    }

    /// Reads the screen until it shows `words`, and returns what was on it since the last time.
    #[track_caller]
    pub(crate) fn until(&mut self, words: &str) -> String {
        assert!(self.shows(words, PATIENCE), "{words:?} was never shown: {:?}", self.seen);
        let end = self.seen.find(words).unwrap() + words.len();
        self.seen.drain(..end).collect()
    }

    /// Reads the screen until it shows `words`, or shows nothing new for as long as `patience`.
    fn shows(&mut self, words: &str, patience: Duration) -> bool {
        while !self.seen.contains(words) {
            match self.screen.recv_timeout(patience) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => return false,
            }
        }
        true
    }

    /// Ends a shell whose last command ended with this exit code. A busy bash may drop a line that
    /// is typed right after an interrupt, so the line is typed until its output is shown.
    #[track_caller]
    pub(crate) fn end_shell(mut self, code: i32) {
        let (shown, since) = (format!("code {code}\r\n"), Instant::now());
        loop {
            self.type_in("echo co''de $?; exit\n");
            if self.shows(&shown, Duration::from_secs(5)) {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "{shown:?} was never shown: {:?}", self.seen);
        }
        assert_eq!(self.end().0, Some(0));
    }

    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        for bytes in &self.screen {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        drop(self.keys);
        (self.running.end().code, self.seen)
    }
}

/// The text on a screen after leasehold's line about a wait, if there is one.
fn shown(screen: &str) -> &str {
    screen.rsplit("\r\x1b[K").next().unwrap_or_default()
}

#[test]
fn the_command_has_the_terminal_and_the_caller_gets_it_back() {
    let place = Place::on_file();
    let inner = format!("leasehold run x -- sh -c '{IN_FRONT}'; {IN_FRONT}");
    let (code, screen) = Terminal::start(&place, &inner).end();
    assert_eq!((code, shown(&screen)), (Some(0), "in front\r\nin front\r\n"));
}

#[test]
fn in_a_pipeline_the_command_gets_the_terminal_only_when_it_asks() {
    let place = Place::on_file();
    let piped = format!("leasehold run x -- sh -c '{IN_FRONT}' | cat");
    assert_eq!(shown(&Terminal::start(&place, &piped).end().1), "behind\r\n");
    let asks = "leasehold run x -- sh -c 'read line; echo got $line' | cat";
    let mut terminal = Terminal::start(&place, asks);
    terminal.type_in("a line\n");
    terminal.until("got a line");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_line_of_leasehold_does_not_stop_it_while_its_command_has_the_terminal() {
    let place = Place::on_file();
    let run = format!("stty tostop; {PROGRAM} run x -- sh -c 'sleep 1 &'");
    let mut shell = Terminal::shell(&place, &run);
    shell.until("s for what the command left behind");
    shell.end_shell(0);
}

#[test]
fn a_job_in_the_background_of_a_script_leaves_the_terminal_to_the_script() {
    let place = Place::on_file();
    for shell in ["sh", "bash"] {
        let job = format!("{PROGRAM} run x -- sh -c 'mkfifo go; echo runs; read go < go; rm go'");
        let script = format!("{job} & read line; echo got $line; read line; echo went on");
        std::fs::write(place.path("script"), script).unwrap();
        let mut terminal = Terminal::shell(&place, &format!("{shell} script"));
        terminal.until("runs");
        terminal.type_in("a line\n");
        terminal.until("got a line");
        terminal.type_in("\x03");
        let screen = terminal.until("$ ");
        assert!(!screen.contains("went on"), "{shell}: {screen}");
        terminal.end_shell(130);
        let _open = lets_go_on(&place);
        until("it has let go", || place.token("x").is_none());
    }
}

#[test]
fn ctrl_c_ends_the_command_and_releases_the_lock() {
    let place = Place::on_file();
    // No shell in between: when interrupted before it starts its child, it waits for that.
    let mut terminal = Terminal::start(&place, "leasehold run x -- cat");
    terminal.cat("runs");
    terminal.type_in("\x03");
    assert_eq!(terminal.end().0, Some(130));
    place.end(&["run", "x", "-n", "--", "true"]).assert_silent(0);
}

/// Programs that run a command under a lock: leasehold, and a program to compare it with.
fn wrappers(place: &Place) -> [String; 2] {
    [format!("{PROGRAM} run x --"), format!("flock {}", place.path("flock").display())]
}

#[test]
fn ctrl_c_stops_the_script_around_it() {
    let place = Place::on_file();
    for (wrapper, shell) in wrappers(&place).iter().flat_map(|w| [(w, "sh"), (w, "bash")]) {
        let round = format!("echo round $i; [ $i = 2 ] || {wrapper} cat");
        let script = format!("for i in 1 2; do {round}; done; echo went on");
        let mut terminal = Terminal::script(&place, shell, &script);
        terminal.until("round 1");
        terminal.cat("runs");
        terminal.type_in("\x03");
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(130), "{shell}, {wrapper}: {screen}");
        assert!(!screen.contains("round 2"), "{shell}, {wrapper}: {screen}");
        assert!(!screen.contains("went on"), "{shell}, {wrapper}: {screen}");
    }
    place.end(&["run", "x", "-n", "--", "true"]).assert_silent(0);
}

#[test]
fn ctrl_c_stops_the_loop_of_an_interactive_shell() {
    let place = Place::on_file();
    for wrapper in wrappers(&place) {
        let round = format!("echo rou''nd $i; [ $i = 2 ] || {wrapper} cat");
        let line = format!("for i in 1 2; do {round}; done; echo wen''t on");
        let mut terminal = Terminal::shell(&place, &line);
        terminal.until("round 1");
        terminal.cat("runs");
        terminal.type_in("\x03");
        let screen = terminal.until("$ ");
        assert!(!screen.contains("round 2"), "{wrapper}: {screen}");
        assert!(!screen.contains("went on"), "{wrapper}: {screen}");
        terminal.end_shell(130);
    }
}

#[test]
fn ctrl_c_stops_the_script_around_a_waiter() {
    let place = Place::on_file();
    let _holder = place.holder("x", &[]);
    for shell in ["sh", "bash"] {
        let script = format!("{PROGRAM} run x -- true; echo went on");
        let mut terminal = Terminal::script(&place, shell, &script);
        terminal.until("waiting for x");
        terminal.type_in("\x03");
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(130), "{shell}: {screen}");
        assert!(!screen.contains("went on"), "{shell}: {screen}");
    }
}

/// As with every program: if the command handles the signal, it has decided what it means.
#[test]
fn ctrl_c_that_the_command_handles_stops_nothing_else() {
    let place = Place::on_file();
    let command = "bash -c 'trap \"exit 7\" INT; echo runs; while :; do read -t 0.05; done'";
    let script = format!("{PROGRAM} run x -- {command}; echo went on $?");
    let mut terminal = Terminal::script(&place, "bash", &script);
    terminal.until("runs");
    terminal.type_in("\x03");
    terminal.until("went on 7");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn ctrl_z_stops_nothing_where_no_shell_could_continue_it() {
    let place = Place::on_file();
    let mut holder = place.holder("x", &[]);
    let command = "leasehold run x -- sh -c 'echo runs; read line; echo got $line'";
    let mut terminal = Terminal::start(&place, command);
    terminal.until("waiting for x");
    terminal.type_in("\x1a");
    terminal.until("^Z");
    holder.close_stdin();
    terminal.until("runs");
    terminal.type_in("\x1a");
    terminal.until("^Z");
    terminal.type_in("a line\n");
    let screen = terminal.until("got a line");
    assert!(!screen.contains("stopped"), "{screen}");
    assert_eq!(terminal.end().0, Some(0));
    holder.end().assert_silent(0);
}

/// As top of procps does after Ctrl-Z.
#[test]
fn a_command_that_stops_itself_by_stop_gives_the_shell_its_terminal_back() {
    let place = Place::on_file();
    let command = format!("{PROGRAM} run x -- sh -c 'kill -STOP $$; echo goes o''n'");
    let mut shell = Terminal::shell(&place, &command);
    shell.until("stopped: the lease ends in");
    shell.stops();
    foreground(&mut shell);
    shell.until("goes on");
    shell.until("$ ");
    shell.end_shell(0);
}

/// An interactive shell with a job that Ctrl-Z has stopped: `leasehold run x` with these options.
/// The script prints when it runs, and has no child then. A child that is stopped between fork and
/// exec would keep its parent from stopping, on any terminal.
fn with_a_stopped_job(place: &Place, options: &str, script: &str) -> Terminal {
    let command = format!("{PROGRAM} run x {options} -- sh -c '{script}'");
    let mut shell = Terminal::shell(place, &command);
    shell.until("runs");
    shell.type_in("\x1a");
    shell.until("stopped: the lease ends in");
    shell.stops();
    shell
}

/// Writes the line that a script awaits. Opened for reading, too, so that the open does not block.
fn lets_go_on(place: &Place) -> File {
    let mut go = File::options().read(true).write(true).open(place.path("go")).unwrap();
    go.write_all(b"\n").unwrap();
    go
}

/// Continues the job, and waits until the shell has confirmed that: later input goes to the job.
fn foreground(shell: &mut Terminal) {
    shell.type_in("fg\n");
    shell.until(" -- sh -c");
}

#[test]
fn ctrl_z_stops_both_with_a_warning_and_after_fg_the_keys_are_the_commands_again() {
    let place = Place::on_file();
    let mut shell = with_a_stopped_job(&place, "", "echo ru''ns; exec cat");
    for line in ["once", "twice"] {
        foreground(&mut shell);
        shell.cat(line);
        shell.type_in("\x1a");
        shell.stops();
    }
    foreground(&mut shell);
    shell.cat("for good");
    assert!(place.token("x").is_some(), "it holds the lock all the while");
    shell.type_in("\x03");
    shell.until("$ ");
    shell.end_shell(130);
    place.end(&["run", "x", "-n", "--", "true"]).assert_silent(0);
}

#[test]
fn a_stopped_job_goes_on_in_the_background_and_lets_go_at_its_end() {
    let place = Place::on_file();
    let script = "mkfifo go; echo ru''ns; read line < go; echo go''es on";
    let mut shell = with_a_stopped_job(&place, "--ttl 5m", script);
    shell.type_in("bg\n");
    let _open = lets_go_on(&place);
    shell.until("goes on");
    until("it has let go", || place.token("x").is_none());
    shell.type_in("wait; exit\n");
    assert_eq!(shell.end().0, Some(0));
}

#[test]
fn a_shell_that_took_the_terminal_from_a_stopped_job_keeps_it_when_the_job_ends() {
    let place = Place::on_file();
    let script = "mkfifo go; echo ru''ns; read line < go";
    let command = format!("{PROGRAM} run x --ttl 5m -- sh -c '{script}'");
    let mut shell = Terminal::shell(&place, &command);
    shell.until("runs");
    let leasehold = place.show("x")["holders"][0]["pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(leasehold as i32).unwrap(), Signal::STOP).unwrap();
    shell.stops();
    shell.type_in("bg\n");
    let _open = lets_go_on(&place);
    until("it has let go", || place.token("x").is_none());
    shell.type_in("wait; echo sti''ll here\n");
    shell.until("still here");
    shell.end_shell(0);
}

#[test]
fn a_job_that_was_stopped_for_longer_than_its_lease_has_ended_when_fg_asks_for_it() {
    let place = Place::on_file();
    let mut shell =
        with_a_stopped_job(&place, "--ttl 1s", "echo ru''ns; read line; echo we''nt on");
    // The next client gets the lock, once the command has ended.
    place.end(&["run", "x", "--", "true"]).assert_silent(0);
    foreground(&mut shell);
    shell.until("lost the lease");
    let screen = shell.until("$ ");
    assert!(!screen.contains("went on"), "{screen}");
    shell.end_shell(76);
}

#[test]
fn a_server_that_hangs_is_seen_to_be_connected_to_and_ctrl_c_ends_that() {
    let mut place = Place::on_redis();
    let server = place.server.take().unwrap();
    place.url = format!("redis://:secret@127.0.0.1:{}/?timeout=60s", server.port());
    server.stop().unwrap();
    let mut terminal = Terminal::start(&place, "leasehold run x -- cat");
    terminal.until("connecting to redis://:***@127.0.0.1:");
    terminal.type_in("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(130), "{screen}");
    assert!(!screen.contains("secret"), "{screen}");
    server.cont().unwrap();
}

#[test]
fn a_second_terminal_sees_who_holds_the_lock_and_then_gets_it() {
    let place = Place::on_file();
    let mut first =
        Terminal::start(&place, "leasehold run x --label 'the first' -- sh -c 'echo runs; cat'");
    first.until("runs");
    let mut second = Terminal::start(&place, "leasehold run x -- echo second runs");
    let line = second.until("next in line");
    assert!(line.contains("waiting for x, held by ") && line.contains("(the first)"), "{line}");
    let mut third = Terminal::start(&place, "leasehold run x -- echo third runs");
    third.until("1 ahead");
    third.type_in("\x03");
    let (code, screen) = third.end();
    assert_eq!(code, Some(130), "{screen}");
    first.type_in("\x04");
    assert_eq!(first.end().0, Some(0));
    let (code, screen) = second.end();
    assert_eq!(code, Some(0));
    // The line was erased, and now has the command's output.
    assert!(screen.ends_with("\r\x1b[Ksecond runs\r\n"), "{screen:?}");
}

#[test]
fn a_listing_is_no_wider_than_the_terminal() {
    let place = Place::on_file();
    let _holder = place.holder("x", &["--label", &"long ".repeat(40)]);
    let (code, screen) =
        Terminal::start(&place, "stty cols 60; leasehold ls; leasehold show x").end();
    assert_eq!((code, screen.lines().count()), (Some(0), 4), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 60), "{screen}");
    assert!(screen.contains('…') && place.end(&["ls"]).stdout.contains("long long"), "{screen}");
}

#[test]
fn on_a_terminal_who_waits_sees_the_trouble_of_the_store_and_its_remedy() {
    let place = Place::on_redis_with("quarantine=on");
    let mut terminal = Terminal::start(&place, "stty cols 60; exec leasehold run x -- echo runs");
    let line = terminal.until("waiting for x: ");
    assert!(line.ends_with("\r\x1b[Kleasehold: waiting for x: "), "{line:?}");
    // It does not fit, and the remedy is at its end: printed in full, once, above the line.
    terminal.until("use `leasehold end-quarantine`\r\n");
    terminal.until("\r\x1b[Kleasehold: waiting for x: ");
    terminal.type_in("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(130), "{screen}");
    assert!(!screen.contains("end-quarantine"), "{screen}");
    assert!(screen.ends_with("leasehold: x: SIGINT while waiting: gave up\r\n"), "{screen:?}");
}
