//! `leasehold top` on a terminal: what it shows, its keys, and the terminal that it leaves.

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{PROGRAM, Place, until};
use crate::terminal::{ENTERS_ITS_SCREEN, LEAVES_ITS_SCREEN, Terminal};

#[test]
fn top_shows_what_is_held_until_somebody_quits_and_gives_the_terminal_back() {
    let on_postgres = crate::postgres::shared();
    let on_postgres = on_postgres.as_ref().map(|(place, _server)| place);
    for place in [&Place::on_file(), &Place::on_redis()].into_iter().chain(on_postgres) {
        let mut holder = place.holder("invoices/42", &["--label", "billing"]);
        let command = "stty rows 24 cols 80; leasehold top; stty -a | grep -o ' -*icanon'";
        let mut terminal = Terminal::start(place, command);
        // Only changes are drawn, so longer texts come in parts.
        terminal.until("invoices/42");
        terminal.type_in("\r");
        terminal.until("billing");
        terminal.type_in("q");
        terminal.type_in("q");
        let (code, rest) = terminal.end();
        assert_eq!(code, Some(0), "{rest}");
        assert!(rest.ends_with(" icanon\r\n"), "{rest:?}");
        holder.close_stdin();
    }
}

#[test]
fn ctrl_z_stops_top_and_gives_the_terminal_back_and_fg_draws_it_again() {
    let place = Place::on_file();
    let mut holder = place.holder("invoices/42", &[]);
    let mut shell = Terminal::shell(&place, &format!("stty rows 24 cols 80; {PROGRAM} top"));
    for _ in 0..2 {
        shell.until(ENTERS_ITS_SCREEN);
        shell.until("invoices/42");
        shell.type_in("\x1a");
        let screen = shell.until("Stopped");
        assert!(screen.contains(LEAVES_ITS_SCREEN), "{screen:?}");
        shell.until("$ ");
        // Input is echoed and read in lines again.
        shell.type_in("stty -a | grep -oE ' -?(icanon|echo) ' | tr -d '\\n'; echo is se''t\n");
        shell.until("is se''t");
        let modes = shell.until("is set");
        assert!(modes.contains(" icanon  echo "), "{modes:?}");
        shell.until("$ ");
        shell.type_in("fg\n");
    }
    shell.until("invoices/42");
    shell.type_in("q");
    shell.until("$ ");
    shell.end_shell(0);
    holder.close_stdin();
}

#[test]
fn a_signal_that_ends_top_leaves_the_terminal_as_it_was() {
    let place = Place::on_file();
    let _holder = place.holder("invoices/42", &[]);
    let command = "stty rows 24 cols 80; sh -c 'echo $$ >pid; exec leasehold top'; echo code $?
        stty -a | grep -o ' -*icanon'";
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        let mut terminal = Terminal::start(&place, command);
        terminal.until("invoices/42");
        let top = place.read("pid").trim().parse().unwrap();
        kill_process(Pid::from_raw(top).unwrap(), signal).unwrap();
        terminal.until(LEAVES_ITS_SCREEN);
        terminal.until(&format!("code {}\r\n", 128 + signal.as_raw()));
        let (_, rest) = terminal.end();
        assert_eq!(rest, " icanon\r\n");
    }
}

#[test]
fn a_holder_is_revoked_in_top_after_a_question() {
    let place = Place::on_file();
    let holder = place.holder("invoices/42", &[]);
    let mut terminal = Terminal::start(&place, "stty rows 10 cols 40; leasehold top");
    terminal.until("invoices/42");
    terminal.type_in("ry");
    until("the holder has let go", || place.token("invoices/42").is_none());
    assert_eq!(holder.end().code, Some(76));
    terminal.type_in("\x03");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn top_without_a_terminal_says_so_and_what_to_take_instead() {
    let place = Place::on_file();
    place.end(&["top"]).assert_failed(2, "leasehold ls --json");
}
