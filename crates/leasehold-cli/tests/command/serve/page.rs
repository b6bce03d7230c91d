//! The page in a real browser.

use leasehold_testkit::Data;

use super::browser::Browser;
use super::served::{Served, TOKEN, loses_it};
use crate::deadlocks::circle;
use crate::harness::{Background, Place};

/// How many pixels of a timeline have a colour.
const PAINTED: &str = "[...document.querySelectorAll('.row canvas')].reduce((sum, canvas) => sum + \
    canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data\
    .filter((_, index) => index % 4 === 3).filter((alpha) => alpha > 0).length, 0)";

/// The texts of the visible rows.
const NAMES: &str = "[...document.querySelectorAll('.row .name')].map((name) => name.textContent)";

const MARKUP: &str = "<img src=x onerror=\"document.title='taken'\"><script>alert(1)</script>";

pub(super) async fn open(served: &Served, width: u32, height: u32) -> Browser {
    let browser = Browser::start(width, height).await;
    browser.page.goto(&format!("http://{}/", served.address)).await.unwrap();
    browser
}

/// Sets a field to another value, as if a user had typed it.
async fn set(browser: &Browser, id: &str, value: &str) {
    let field = format!("const field = document.getElementById('{id}'); field.value = '{value}';");
    browser.run(&format!("{field} field.dispatchEvent(new Event('input'));")).await;
}

/// Waits until an element's text begins with this.
pub(super) async fn begins(browser: &Browser, id: &str, text: &str) {
    let found = format!("document.getElementById('{id}').textContent");
    browser.until(&format!("{found}.startsWith({text:?})")).await;
}

#[tokio::test]
async fn the_page_shows_what_is_held_as_it_happens_and_strangers_words_as_text_only() {
    let mut place = Place::on_redis();
    let cooling = ["run", "cooling", "--min-hold", "1h", "--once-per", "1h", "--label", MARKUP];
    place.end(&[&cooling[..], &["--", "true"]].concat()).assert_silent(0);
    let _first = place.holder("invoices/42", &["--ttl", "1h", "--label", "monthly run"]);
    let _markup = place.holder(MARKUP, &["--ttl", "1h", "--label", MARKUP]);
    let _permit = place.holder("gpu", &["--ttl", "1h", "--permits", "3/4"]);
    let waiting: Vec<_> = (0..2)
        .map(|_| Background::start(place.shell("invoices/42", &["--label", "next"], "true")))
        .collect();
    let served = Served::start(&place, &[]);
    let browser = open(&served, 1280, 720).await;
    browser.until(&format!("{NAMES}.length === 4")).await;
    begins(&browser, "verdict", "Nothing is stuck").await;
    begins(&browser, "waiting", "2").await;
    browser.until("document.querySelector('.row .name').textContent === 'invoices/42'").await;
    // Live: one lock more, and one less.
    let mut second = place.holder("second", &["--ttl", "1h"]);
    browser.until(&format!("{NAMES}.includes('second')")).await;
    browser.until(&format!("{PAINTED} > 100")).await;
    second.close_stdin();
    browser.until(&format!("!{NAMES}.includes('second')")).await;
    // The filter takes names, hosts and labels.
    browser.type_into("#filter", "MONTHLY").await;
    browser.until(&format!("{NAMES}.join() === 'invoices/42'")).await;
    set(&browser, "filter", "").await;
    // A label of a stranger is shown as text.
    browser.until(&format!("{NAMES}.some((name) => name.startsWith('<img src=x'))")).await;
    assert_eq!(
        browser.run("return document.querySelectorAll('.row img, .row script').length").await,
        0
    );
    // One lock, by keyboard, with its queue in order.
    browser.run("document.getElementById('list').focus()").await;
    browser.type_into("#list", "j").await;
    browser.until("document.querySelector('.row[aria-selected=true]')").await;
    browser.type_into("#list", "\u{e006}").await;
    browser.until("document.getElementById('lock').open").await;
    browser.until("document.querySelectorAll('#lock-body table').length === 2").await;
    let queue = browser.run("return document.getElementById('lock-body').innerText").await;
    let queue = queue.as_str().unwrap();
    assert!(queue.contains("2 wait, in this order") && queue.contains("monthly run"), "{queue}");
    assert!(!queue.contains("Revoke"), "{queue}");
    browser.picture("lock.png").await;
    browser.click("#close").await;
    // The last run that has succeeded, too.
    let row = "[...document.querySelectorAll('.row')]\
        .find((row) => row.textContent.includes('cooling')).click()";
    browser.run(row).await;
    let body = "document.getElementById('lock-body').innerText";
    browser.until(&format!("{body}.includes('Done last')")).await;
    let last = browser.run(&format!("return {body}.split('Done last')[1]")).await;
    assert!(last.as_str().unwrap().contains(MARKUP), "{last}");
    browser.click("#close").await;
    browser.click("#doctor").await;
    browser
        .until("document.querySelector('#findings-body table, #findings-body p.dim:not(:empty)')")
        .await;
    browser.click("#close-findings").await;
    browser.picture("page.png").await;
    assert_eq!(browser.run("return document.title").await, "leasehold");
    assert_eq!(browser.errors().await, [""; 0]);
    // The store goes away, which the page shows, and comes back, and everything goes on.
    place.server.as_mut().unwrap().kill9().unwrap();
    begins(&browser, "verdict", "The store does not answer").await;
    assert!(browser.run(&format!("return {NAMES}.length")).await.as_u64() >= Some(4));
    browser.picture("away.png").await;
    drop(waiting);
    place.server.as_mut().unwrap().restart(Data::Kept).unwrap();
    let _after = place.holder("after", &["--ttl", "1h"]);
    browser.until(&format!("{NAMES}.includes('after')")).await;
    begins(&browser, "link", "live").await;
    assert_eq!(browser.errors().await, [""; 0]);
    drop(served);
    begins(&browser, "verdict", "What is shown is from before: the watcher does not").await;
    browser.close().await;
}

#[tokio::test]
async fn a_lease_is_revoked_on_the_page_by_who_signs_in_and_by_nobody_else() {
    let place = Place::on_redis();
    let mut held = place.holder("x", &["--ttl", "3s", "--label", "old"]);
    let served = Served::with_token(&place);
    let browser = open(&served, 1000, 700).await;
    browser.until(&format!("{NAMES}.join() === 'x'")).await;
    let revoke = async || {
        browser.until("document.querySelector('#lock-body button.danger:enabled')").await;
        browser.click("#lock-body button.danger").await;
        let question = browser.page.get_alert_text().await.unwrap();
        assert!(question.contains('x') && question.contains("(old)"), "{question}");
        browser.page.accept_alert().await.unwrap();
    };
    browser.click(".row").await;
    revoke().await;
    browser.until("document.getElementById('login').open").await;
    assert_eq!(place.show("x")["holders"][0]["state"], "held");
    browser.type_into("#token", "wrong").await;
    browser.click("#login-form button[type=submit]").await;
    begins(&browser, "login-error", "that is not the token").await;
    browser.run("document.getElementById('token').value = ''").await;
    browser.type_into("#token", TOKEN).await;
    browser.click("#login-form button[type=submit]").await;
    browser.until("!document.getElementById('login').open").await;
    revoke().await;
    browser
        .until("document.getElementById('lock-body').textContent.includes('Nobody holds it')")
        .await;
    loses_it(&mut held);
    // A browser reports every refused request to the console.
    let errors = browser.errors().await;
    assert!(errors.iter().all(|error| error.contains("401")), "{errors:?}");
    browser.close().await;
}

/// The words that a line break has split, in the visible cells. Only words of at most 20 letters
/// count: those fit a phone.
const TORN: &str = "[...document.querySelectorAll('#lock-body td, #lock-body button')]\
    .flatMap((cell) => {\
      const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT); const torn = [];\
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {\
        for (const word of node.data.matchAll(/[^\\s:\\/-]{1,20}/g)) {\
          const range = document.createRange(); range.setStart(node, word.index);\
          range.setEnd(node, word.index + word[0].length);\
          const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));\
          if (lines.size > 1) torn.push(word[0]);\
        }\
      }\
      return torn; })";

#[tokio::test]
async fn on_a_phone_the_detail_of_a_lock_tears_no_word_apart_and_its_lease_can_be_revoked() {
    let place = Place::on_redis();
    let mut held = place.holder("x", &["--ttl", "3s", "--label", "nightly reconciliation"]);
    let _waiter = Background::start(place.shell("x", &["--label", "next"], "true"));
    let served = Served::with_token(&place);
    let browser = open(&served, 1000, 800).await;
    browser.resize(390, 844, true).await;
    browser.until(&format!("{NAMES}.join() === 'x'")).await;
    browser.run(&format!("sessionStorage.setItem('token', '{TOKEN}')")).await;
    browser.run("document.querySelector('.row').click()").await;
    browser.until("document.querySelectorAll('#lock-body table').length === 2").await;
    browser.picture("lock-phone.png").await;
    assert_eq!(browser.run(&format!("return {TORN}")).await, serde_json::json!([]));
    let fits = "[document.documentElement, document.getElementById('lock')]\
        .every((it) => it.scrollWidth <= it.clientWidth)";
    assert_eq!(browser.run(&format!("return {fits}")).await, true);
    // The button is large enough for a finger, and visible.
    let finger = "(() => { const box = document.querySelector('#lock-body button.danger')\
        .getBoundingClientRect(); return box.height >= 40 && box.left >= 0 \
        && box.right <= innerWidth; })()";
    assert_eq!(browser.run(&format!("return {finger}")).await, true);
    browser.click("#lock-body button.danger").await;
    browser.page.accept_alert().await.unwrap();
    loses_it(&mut held);
    browser.close().await;
}

#[tokio::test]
async fn of_5_000_names_only_those_are_drawn_that_can_be_seen_on_a_phone_too() {
    let place = Place::on_redis();
    let client = leasehold::Client::connect(&place.url).await.unwrap();
    let mut held = Vec::new();
    for number in 0..5_000 {
        let hour = std::time::Duration::from_secs(3600);
        let lock = client.mutex(format!("account/{number:04}")).ttl(hour);
        held.push(lock.acquire().await.unwrap());
    }
    let served = Served::start(&place, &[]);
    let browser = open(&served, 390, 844).await;
    begins(&browser, "count", "5000 of 5000 locks").await;
    set(&browser, "sort", "name").await;
    browser.until(&format!("{NAMES}[0] === 'account/0000'")).await;
    browser.until("document.querySelectorAll('.row').length < 60").await;
    browser.run("document.getElementById('list').focus()").await;
    browser.type_into("#list", "\u{e010}").await;
    browser.until(&format!("{NAMES}.includes('account/4999')")).await;
    let wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    browser.until(wide).await;
    browser.picture("phone.png").await;
    assert_eq!(browser.errors().await, [""; 0]);
    browser.close().await;
    drop(held);
}

#[tokio::test]
async fn the_page_says_how_far_it_has_looked_until_it_has_looked_at_everything() {
    let place = Place::on_redis();
    let server = place.server.as_ref().unwrap();
    // A walk over these keys takes minutes.
    let () = server.command("DEBUG POPULATE 1000000 foreign 16").unwrap();
    let served = Served::start(&place, &[]);
    let browser = open(&served, 1000, 700).await;
    let text = |id: &str| format!("document.getElementById('{id}').textContent");
    let looks = "/^Still looking: [1-9][0-9]* keys so far$/";
    browser.until(&format!("{looks}.test({})", text("verdict"))).await;
    browser.until(&format!("{} === '0 of 0 locks found so far'", text("count"))).await;
    let before = browser.run(&format!("return {}", text("verdict"))).await;
    browser.until(&format!("{} !== {before}", text("verdict"))).await;
    begins(&browser, "verdict", "Still looking: ").await;
    // No key is left to pass.
    let () = server.command("FLUSHALL").unwrap();
    let _held = place.holder("x", &["--ttl", "1h"]);
    browser.until(&format!("{} === '1 of 1 locks'", text("count"))).await;
    begins(&browser, "verdict", "Nothing is stuck").await;
    assert_eq!(browser.errors().await, [""; 0]);
    browser.close().await;
}

#[tokio::test]
async fn those_who_wait_for_each_other_are_marked_and_a_click_draws_their_circle() {
    let place = Place::on_file();
    let clients = circle(&place, &["a", "b", "<i>c"]);
    let _work = place.holder("work", &[]);
    let _waiter = Background::start(place.shell("work", &["-q"], "true"));
    let served = Served::start(&place, &[]);
    let browser = open(&served, 1000, 800).await;
    begins(&browser, "verdict", "Probably a deadlock: those who wait for <i>c, a and b").await;
    let marked =
        "[...document.querySelectorAll('.row.deadlock .name')].map((it) => it.textContent)";
    browser.until(&format!("{marked}.sort().join() === '<i>c,a,b'")).await;
    browser.run("document.querySelector('.row.deadlock').click()").await;
    browser.until("document.querySelectorAll('#lock-body svg .node').length === 3").await;
    let drawn =
        "[...document.querySelectorAll('#lock-body svg .what')].map((it) => it.textContent)";
    browser.until(&format!("{drawn}.sort().join() === '<i>c,a,b'")).await;
    // Each name in the circle leads to that lock.
    browser.run("document.querySelector('#lock-body button:enabled').click()").await;
    browser.until("document.querySelector('#lock-body button:disabled')").await;
    browser.picture("deadlock.png").await;
    assert!(served.get("/metrics").body.contains("\nleasehold_serve_deadlocks 1\n"));
    place.end(&["revoke", "a", &place.token("a").unwrap()]).assert_silent(0);
    browser.until(&format!("{marked}.length === 0")).await;
    assert_eq!(browser.errors().await, [""; 0]);
    browser.close().await;
    clients.into_iter().for_each(|client| drop(client.join().unwrap()));
}
