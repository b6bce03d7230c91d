// The page: asks the server for the rows that can be seen, and draws them. Foreign words (names,
// hosts, labels) only ever become text.
'use strict';

const by = (id) => document.getElementById(id);
const POLL_MS = 1000;
const SPAN_MS = 300_000; // of the timelines
let state = null;
let skew = 0; // the server's clock minus ours
let list = { from: 0, matching: 0, total: 0, rows: [] }; // the rows around the visible ones
let at = -1; // the place of the selected row
let selected = null; // its name
let opened = null; // the name of the lock in the dialog
let drawn = ''; // what the dialog shows of it
let timer = null;
let turn = 0; // counts requests, so that an answer that was overtaken is dropped

const now = () => Date.now() + skew;
const rowHeight = () => parseInt(getComputedStyle(document.documentElement).getPropertyValue('--row'), 10);

// ---- words

function span(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

const inWords = (names) => (names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`);
const since = (ms) => (ms === null || ms === undefined ? null : (now() - ms) / 1000);
// A hold that is not described yet has an id alone.
const process = (one) => (one.host ? `${one.host}:${one.pid}` : one.holder ?? one.waiter);
const who = (one) => `${process(one)}${one.label ? ` (${one.label})` : ''}`;

function use(lock) {
  if (lock.unreadable) return '?';
  const modes = lock.holders.map((holder) => holder.mode);
  if (modes.length === 0) return lock.foreign ? 'exclusive' : '–';
  if (modes[0].includes('/')) {
    const taken = modes.reduce((sum, mode) => sum + Number(mode.split('/')[0]), 0);
    return `${lock.holding > modes.length ? '≥' : ''}${taken}/${modes[0].split('/')[1]}`;
  }
  return lock.holding > 1 ? `${lock.holding} shared` : modes[0];
}

function holder(lock) {
  if (lock.unreadable) return lock.unreadable.why;
  if (lock.foreign) return 'another program';
  if (lock.holders.length === 0) return lock.held_back.length ? `held back by ${lock.held_back[0]}` : '–';
  const more = lock.holding > 1 ? ` +${lock.holding - 1}` : '';
  return (lock.holders[0].state === 'cooldown' ? 'cooldown of ' : '') + who(lock.holders[0]) + more;
}

const MARKS = {
  deadlock: 'those who wait for it probably wait for each other',
  long_wait: 'somebody has waited for more than a minute',
  asked_to_stop: 'its holder was asked to stop and has not let go yet',
  no_end: 'held by another program, and nothing ends that but itself',
  unreadable: 'its record cannot be read, so nobody knows who holds it',
};

function color(client) {
  let hash = 0;
  for (const c of client) hash = (hash * 31 + c.charCodeAt(0)) >>> 0;
  return `hsl(${hash % 360} 55% ${matchMedia('(prefers-color-scheme: dark)').matches ? 60 : 45}%)`;
}

// ---- elements, of text only

function element(tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function table(titles, rows) {
  const made = element('table');
  const head = made.createTHead().insertRow();
  for (const title of titles) head.append(element('th', title));
  const body = made.createTBody();
  for (const cells of rows) {
    const row = body.insertRow();
    for (const cell of cells) {
      const td = row.insertCell();
      // If there is no room for columns, each cell has its title.
      td.dataset.title = titles[row.cells.length - 1];
      td.append(cell instanceof Node ? cell : String(cell));
    }
  }
  const wide = element('div', undefined, 'wide');
  wide.append(made);
  return wide;
}

// ---- the answers of the server

// The token that was typed, for this tab only.
const KEY = 'token';

async function ask(path, options = {}) {
  const known = sessionStorage.getItem(KEY);
  const headers = { ...options.headers, ...(known && { authorization: `Bearer ${known}` }) };
  const response = await fetch(path, { ...options, headers });
  if (response.status === 401) by('sign-in').hidden = false;
  const body = await response.json();
  if (!response.ok) throw Object.assign(new Error(body.error), { status: response.status });
  return body;
}

async function poll() {
  const mine = ++turn;
  clearTimeout(timer);
  const first = Math.max(0, Math.floor(by('list').scrollTop / rowHeight()) - 2);
  const count = Math.ceil(by('list').clientHeight / rowHeight()) + 4;
  const query = new URLSearchParams({ text: by('filter').value, order: by('sort').value, from: first, count });
  try {
    const told = await ask(`/api/v1/screen?${query}`);
    if (mine !== turn) return;
    list = told;
    note(told.state);
    const place = list.rows.findIndex((row) => row.name === selected);
    if (place >= 0) at = list.from + place;
    else selected ??= list.rows[at - list.from]?.name ?? null;
    draw();
    if (opened) detail();
  } catch (error) {
    if (mine !== turn) return;
    failed(error);
    if (error.status === 401) return;
  }
  timer = setTimeout(poll, POLL_MS);
}

function note(told) {
  state = told;
  skew = told.now_ms - Date.now();
  by('store').textContent = told.store.url;
  for (const key of ['held', 'awaited', 'waiting']) by(key).textContent = told[key];
  by('longest-wait').textContent = span(told.longest_wait_seconds);
  by('longest-hold').textContent = span(told.longest_hold_seconds);
  const sick = [[told.dangers, 'danger'], [told.warnings, 'warning']].filter(([n]) => n > 0);
  by('doctor').textContent = told.dangers === null ? '…'
    : sick.map(([n, word]) => `${n} ${word}${n > 1 ? 's' : ''}`).join(', ') || 'all is well';
  if (told.store.is_there) link('live', 'live');
  else if (told.store.is_denied) link('away', 'not allowed');
  else link('away', told.store.away_since_ms === null ? 'connecting …'
    : `the store is away for ${span(since(told.store.away_since_ms))}`);
}

function link(is, text) {
  by('link').dataset.is = is;
  by('link').textContent = text;
}

function failed(error) {
  const why = error.status === 401 ? 'sign in to see the locks' : error.status ? error.message : 'the watcher does not answer: trying again …';
  link(error.status === 401 ? 'wait' : 'away', why);
  verdict(['bad', `What is shown is from before: ${why}`]);
}

// ---- the first look: is something stuck?

function verdict([is, text]) {
  by('verdict').dataset.is = is;
  if (by('verdict').textContent !== text) by('verdict').textContent = text;
}

function judge() {
  if (!state) return ['', 'Looking …'];
  if (state.store.is_denied) return ['bad', `Not allowed to look: ${state.store.why}`];
  if (!state.store.is_there) {
    return ['bad', `The store does not answer${state.store.why ? `: ${state.store.why}` : ''}. What is shown is from before.`];
  }
  if (state.deadlocks > 0) {
    const [first] = state.first_deadlocks;
    const others = state.deadlocks > 1 ? `, and ${state.deadlocks - 1} more` : '';
    const names = first.waits.map((wait) => wait.name);
    return ['bad', `Probably a deadlock: ${names.length > 1 ? `those who wait for ${inWords(names)} wait for each other` : `${names[0]} is awaited by what its holder started`}${others}`];
  }
  if (state.stuck > 0) {
    const others = state.stuck > 1 ? `, and ${state.stuck - 1} more` : '';
    return ['bad', `Perhaps stuck: ${state.longest_awaited} has been awaited for ${span(state.longest_wait_seconds)}${others}`];
  }
  if (!state.is_whole) return ['', `Still looking: ${state.keys_so_far} keys so far`];
  if (state.unreadable > 0) {
    const names = state.unreadable === 1 ? '1 name' : `${state.unreadable} names`;
    return ['warn', `${names} cannot be read, such as ${state.first_unreadable}`];
  }
  if (state.dangers > 0) return ['warn', 'Nothing is stuck, but the doctor found what breaks a promise'];
  if (state.waiting > 0) return ['good', `Nothing is stuck: ${state.waiting} wait, the longest for ${span(state.longest_wait_seconds)}`];
  return ['good', state.held > 0 ? 'Nothing is stuck: nobody waits' : 'Nothing is held'];
}

// ---- the list, of which only the visible rows exist

function make() {
  const row = element('div', undefined, 'row');
  row.setAttribute('role', 'option');
  for (const kind of ['name', 'use', 'holder', 'held', 'waits', 'seen']) row.append(element('span', '', kind));
  row.append(element('canvas'));
  return row;
}

function draw() {
  verdict(judge());
  if (!state) return;
  const { from, rows } = list;
  by('count').textContent = `${list.matching} of ${list.total} locks${state.is_whole ? '' : ' found so far'}${state.is_cut ? '; there are more than are watched' : ''}`;
  by('rows').style.height = `${list.matching * rowHeight()}px`;
  const made = by('rows').children;
  while (made.length > rows.length) made[made.length - 1].remove();
  while (made.length < rows.length) by('rows').append(make());
  rows.forEach((lock, index) => {
    made[index].id = `row-${from + index}`;
    made[index].style.top = `${(from + index) * rowHeight()}px`;
    fill(made[index], lock);
  });
  const active = at >= from && at < from + rows.length ? `row-${at}` : '';
  by('list').setAttribute('aria-activedescendant', active);
}

function fill(row, lock) {
  const waited = since(lock.waited_since_ms);
  row.dataset.name = lock.name;
  row.setAttribute('aria-selected', String(lock.name === selected));
  row.className = `row${waited >= 60 ? ' stuck' : ''}${lock.marks.includes('deadlock') ? ' deadlock' : ''}`;
  row.title = lock.marks.map((mark) => MARKS[mark] ?? mark).join('; ');
  const waits = lock.waiting === 0 ? '–' : `${lock.waiting} wait, ${span(waited)}`;
  const texts = [lock.name, use(lock), holder(lock), span(since(lock.held_since_ms)), waits, span(since(lock.seen_ms))];
  texts.forEach((text, index) => { row.children[index].textContent = text; });
  timeline(row.lastChild, lock);
}

function timeline(canvas, lock) {
  const scale = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (width === 0) return;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  const end = now();
  const begin = end - SPAN_MS;
  const x = (ms) => ((Math.min(Math.max(ms, begin), end) - begin) / (end - begin)) * width;
  const half = height * 0.55;
  for (const bar of lock.bars) {
    if ((bar.to_ms ?? end) < begin) continue;
    const left = x(bar.from_ms);
    context.fillStyle = color(bar.client);
    context.fillRect(left, 1, Math.max(1.5, x(bar.to_ms ?? end) - left - 0.5), half - 2);
  }
  const most = Math.max(1, ...lock.queue.map(([, waiting]) => waiting));
  context.fillStyle = '#8a94a0';
  lock.queue.forEach(([from, waiting], index) => {
    const to = lock.queue[index + 1]?.[0] ?? end;
    const tall = (waiting / most) * (height - half - 1);
    if (waiting > 0 && to > begin) context.fillRect(x(from), height - tall, Math.max(1, x(to) - x(from)), tall);
  });
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `${lock.bars.length} holds in the last minutes, at most ${most} waiting`);
}

// ---- one lock

async function open(name) {
  opened = name;
  selected = name;
  drawn = '';
  by('lock-name').textContent = name;
  by('lock-body').replaceChildren(element('p', 'Looking …', 'dim'));
  if (!by('lock').open) by('lock').showModal();
  await detail();
}

async function detail() {
  const name = opened;
  const body = by('lock-body');
  try {
    const lock = await ask(`/api/v1/locks/${encodeURIComponent(name)}`);
    // Spans alone are no reason to draw again: a button would move under the pointer.
    const people = [...lock.holders, ...lock.waiters].map((one) => [one.holder ?? one.waiter, one.token, one.state]);
    const seen = JSON.stringify([lock.marks, people, lock.foreign?.value, lock.held_back, lock.last?.token, state?.may_revoke]);
    if (opened !== name || seen === drawn) return;
    drawn = seen;
    body.replaceChildren(...parts(lock));
  } catch (error) {
    drawn = '';
    if (opened === name) body.replaceChildren(element('p', error.message, 'error'));
  }
}

function token(text) {
  const made = element('span', text);
  made.className = 'token';
  return made;
}

function person(one, client) {
  const made = element('span');
  const swatch = element('span', '', 'swatch');
  swatch.style.background = color(client.split('-')[0]);
  made.append(swatch, process(one));
  return made;
}

// ---- deadlocks: who waits for whom, around to the first

const SVG = 'http://www.w3.org/2000/svg';
const MOST_DRAWN = 8;

function svg(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// A circle of waiters, each with an arrow to the client that blocks it.
function circle(deadlock) {
  const { waits } = deadlock;
  const [width, height] = [520, 240];
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': deadlock.words, class: 'circle' });
  const at = (index) => {
    const turn = (index / waits.length) * 2 * Math.PI - Math.PI / 2 - (waits.length === 2 ? Math.PI / 2 : 0);
    return [width / 2 + Math.cos(turn) * 170, height / 2 + Math.sin(turn) * 85];
  };
  waits.forEach((wait, index) => {
    const [[x, y], [toX, toY]] = [at(index), at((index + 1) % waits.length)];
    // The arrows are bent outwards, so that those between two waiters do not overlap.
    const [middleX, middleY] = [(x + toX) / 2 + (toY - y) * 0.25, (y + toY) / 2 - (toX - x) * 0.25];
    const [dx, dy] = [toX - middleX, toY - middleY];
    const long = Math.hypot(dx, dy) || 1;
    const [endX, endY] = [toX - (dx / long) * 34, toY - (dy / long) * 34];
    picture.append(svg('path', { d: `M${x} ${y} Q${middleX} ${middleY} ${endX} ${endY}`, class: 'edge' }));
    const [sideX, sideY] = [(-dy / long) * 5, (dx / long) * 5];
    const [backX, backY] = [endX - (dx / long) * 10, endY - (dy / long) * 10];
    picture.append(svg('path', { d: `M${endX} ${endY} L${backX + sideX} ${backY + sideY} L${backX - sideX} ${backY - sideY} Z`, class: 'tip' }));
    picture.append(svg('text', { x: (x + 2 * middleX + endX) / 4, y: (y + 2 * middleY + endY) / 4 + 4, class: 'what' }, shortened(wait.name, 24)));
  });
  waits.forEach(({ waiter }, index) => {
    const [x, y] = at(index);
    picture.append(svg('circle', { cx: x, cy: y, r: 26, class: 'node' }));
    picture.append(svg('text', { x, y: y + 4, class: 'who' }, shortened(waiter.label ?? String(waiter.pid), 8)));
  });
  return picture;
}

function round(deadlock, own) {
  const made = [element('h3', 'Probably a deadlock: nobody in this circle goes on by itself')];
  if (deadlock.waits.length > 1 && deadlock.waits.length <= MOST_DRAWN) made.push(circle(deadlock));
  const rows = deadlock.waits.map((wait) => {
    const name = element('button', wait.name);
    name.type = 'button';
    name.disabled = wait.name === own;
    name.addEventListener('click', () => open(wait.name));
    return [who(wait.waiter), name, span(wait.waited_seconds), `held by ${who(wait.behind)}`];
  });
  made.push(table(['Who', 'Waits for', 'For', 'Which is'], rows));
  const remedy = state.may_revoke ? 'Revoke one of the leases to end it.' : '`leasehold doctor` prints the commands that end it.';
  made.push(element('p', remedy, 'dim'));
  return made;
}

function parts(lock) {
  const made = lock.marks.filter((mark) => mark !== 'deadlock').map((mark) => element('p', MARKS[mark] ?? mark, 'mark'));
  for (const deadlock of state?.first_deadlocks ?? []) {
    if (deadlock.waits.some((wait) => wait.name === lock.name)) made.push(...round(deadlock, lock.name));
  }
  made.push(element('h3', lock.holding === 0 && !lock.foreign ? 'Nobody holds it' : `Held by ${lock.holding || 1}`));
  for (const one of lock.held_back) made.push(element('p', `held back by ${one}`));
  if (lock.foreign) {
    const left = lock.foreign.left_seconds;
    made.push(element('p', `another program, value ${lock.foreign.value}, ${left === null ? 'no end' : `${span(left)} left`}`));
  }
  if (lock.holders.length > 0) {
    const rows = lock.holders.map((one) => [
      person(one, one.holder), one.mode, one.state, new Date(lock.seen_ms - one.held_seconds * 1000).toLocaleString(),
      span(one.held_seconds), span(one.left_seconds), token(one.token ?? '-'), one.label ?? '', take(lock.name, one),
    ]);
    made.push(table(['Holder', 'Mode', 'State', 'Since', 'Held', 'Left', 'Token', 'Label', ''], rows));
  }
  made.push(element('h3', lock.waiting === 0 ? 'Nobody waits' : `${lock.waiting} wait, in this order`));
  if (lock.waiters.length > 0) {
    const rows = lock.waiters.map((one) => [
      one.position, person(one, one.waiter), one.mode, span(one.waited_seconds), one.label ?? '',
    ]);
    made.push(table(['#', 'Who', 'Mode', 'Waits', 'Label'], rows));
  }
  if (lock.last) {
    const row = [person(lock.last, lock.last.holder), new Date(lock.last.ended).toLocaleString(), lock.last.label ?? ''];
    made.push(element('h3', 'Done last'));
    made.push(table(['By', 'Ended', 'Label'], [row]));
  }
  return made;
}

function take(name, one) {
  if (!state?.may_revoke || one.state === 'cooldown') return '';
  const button = element('button', 'Revoke …', 'danger');
  button.type = 'button';
  button.addEventListener('click', async () => {
    if (!confirm(`Take ${name} away from ${who(one)}? It is asked to stop and lets go; its lease is ${one.token ?? one.holder}.`)) return;
    button.disabled = true;
    try {
      await ask(`/api/v1/locks/${encodeURIComponent(name)}/revoke`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ lease: one.token ?? one.holder }),
      });
      button.textContent = 'asked to stop';
    } catch (error) {
      button.disabled = false;
      if (error.status === 401) return login();
      button.after(element('p', error.message, 'error'));
    }
    setTimeout(poll, 200);
  });
  return button;
}

async function findings() {
  const body = by('findings-body');
  body.replaceChildren(element('p', 'Looking …', 'dim'));
  by('findings').showModal();
  try {
    const report = await ask('/api/v1/doctor');
    const rows = report.findings.filter((one) => one.level !== 'ok').map((one) => [
      element('span', one.level, `${one.level}-level`), one.place, one.found, one.risk ?? '', one.remedy ?? '',
    ]);
    const good = report.findings.length - rows.length;
    body.replaceChildren(element('p', `${good} things are well.`, 'dim'));
    if (rows.length > 0) body.prepend(table(['Level', 'Where', 'Found', 'Risk', 'Remedy'], rows));
  } catch (error) {
    body.replaceChildren(element('p', error.message, 'error'));
  }
}

function signed() {
  by('sign-in').hidden = true;
  by('sign-out').hidden = !sessionStorage.getItem(KEY);
}

function login() {
  by('login-error').textContent = '';
  by('login').showModal();
  by('token').focus();
}

// ---- keys and buttons

by('login-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, by('token').value.trim());
  try {
    await ask('/api/v1/state');
  } catch (error) {
    sessionStorage.removeItem(KEY);
    by('login-error').textContent = error.status === 401 ? 'that is not the token' : error.message;
    return;
  }
  by('token').value = '';
  by('login').close();
  signed();
  poll();
});
by('sign-in').addEventListener('click', login);
by('sign-out').addEventListener('click', () => {
  sessionStorage.removeItem(KEY);
  location.reload();
});
by('login-cancel').addEventListener('click', () => by('login').close());
by('lock').addEventListener('close', () => { if (!by('lock').open) opened = null; by('list').focus(); });
by('doctor').addEventListener('click', findings);
by('tools').addEventListener('submit', (event) => event.preventDefault());
for (const id of ['filter', 'sort']) {
  by(id).addEventListener('input', () => {
    by('list').scrollTop = 0;
    [at, selected] = [-1, null];
    poll();
  });
}
by('list').addEventListener('scroll', () => {
  clearTimeout(timer);
  timer = setTimeout(poll, 50);
}, { passive: true });
by('list').addEventListener('click', (event) => {
  const row = event.target.closest('.row');
  if (row) open(row.dataset.name);
});
by('list').addEventListener('keydown', (event) => {
  const page = Math.max(1, list.rows.length - 5);
  const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  if (event.key === 'Enter' && selected) {
    // The same key must not also press the button that gets the focus.
    event.preventDefault();
    return open(selected);
  }
  if (!(event.key in steps) || list.matching === 0) return;
  event.preventDefault();
  at = Math.min(Math.max(at + steps[event.key], 0), list.matching - 1);
  selected = list.rows[at - list.from]?.name ?? null;
  const [top, height] = [at * rowHeight(), by('list').clientHeight];
  if (top < by('list').scrollTop) by('list').scrollTop = top;
  if (top + rowHeight() > by('list').scrollTop + height) by('list').scrollTop = top + rowHeight() - height;
  draw();
});
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target.matches('input, select')) return;
  event.preventDefault();
  by('filter').focus();
});
addEventListener('resize', poll);

signed();
poll();
