// The page: keeps the state that the server sends, and draws the visible part of it. Foreign words
// (names, hosts, labels) only ever become text.
'use strict';

const by = (id) => document.getElementById(id);
const locks = new Map(); // name -> the lock, as in /api/v1/locks
const times = new Map(); // name -> {bars, queue}, of the last minutes
const SPAN_MS = 600_000;
const MOST_BARS = 64;
let state = null;
let skew = 0; // the server's clock minus ours
let shown = []; // names, filtered and sorted
let selected = null;
let opened = null;
let dirty = true;
let stream = null;
let listed = false; // the locks were read once

const now = () => Date.now() + skew;

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
const who = (one) => `${one.host}:${one.pid}${one.label ? ` (${one.label})` : ''}`;

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
  if (lock.holders.length === 0) return '–';
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

async function ask(path, options) {
  const response = await fetch(path, options);
  if (response.status === 401) by('sign-in').hidden = false;
  const body = await response.json();
  if (!response.ok) throw Object.assign(new Error(body.error), { status: response.status });
  return body;
}

async function all(path) {
  const found = [];
  let next = '';
  do {
    const page = await ask(`${path}?limit=1000${next}`);
    found.push(...page.locks);
    next = page.next === null ? null : `&cursor=${encodeURIComponent(page.next)}`;
  } while (next !== null);
  return found;
}

async function read() {
  const began = now();
  const [told, timed] = [await all('/api/v1/locks'), await all('/api/v1/timeline')];
  const names = new Set(told.map((lock) => lock.name));
  // Events that came meanwhile are newer.
  for (const [name, lock] of locks) {
    if (!names.has(name) && lock.seen_ms < began) locks.delete(name);
  }
  for (const lock of told) {
    if (!(locks.get(lock.name)?.seen_ms > lock.seen_ms)) locks.set(lock.name, lock);
  }
  times.clear();
  for (const { name, bars, queue } of timed) times.set(name, { bars, queue });
  listed = true;
  totals();
  dirty = true;
  draw();
}

function learn(change) {
  const { name } = change;
  const time = times.get(name) ?? { bars: [], queue: [] };
  for (const event of change.events) {
    const bar = time.bars.find((other) => other.token === event.token);
    if (event.kind === 'released') {
      if (bar) bar.to_ms = event.at_ms;
    } else if (!bar) {
      time.bars.push({ ...event, from_ms: event.at_ms, to_ms: null });
    }
  }
  if ((time.queue.at(-1)?.[1] ?? 0) !== change.waiting) time.queue.push([change.seen_ms, change.waiting]);
  const begin = now() - SPAN_MS;
  time.bars = time.bars.filter((bar) => bar.to_ms === null || bar.to_ms >= begin).slice(-MOST_BARS);
  while (time.queue.length > MOST_BARS || (time.queue[1]?.[0] ?? Infinity) < begin) time.queue.shift();
  times.set(name, time);
  if (change.lock) locks.set(name, change.lock);
  else locks.delete(name);
  dirty = true;
  if (opened === name) detail();
}

function listen() {
  stream?.close();
  stream = new EventSource('/api/v1/events');
  const again = () => read().catch(failed);
  stream.addEventListener('open', again);
  stream.addEventListener('resync', again);
  stream.addEventListener('state', (event) => note(JSON.parse(event.data)));
  stream.addEventListener('lock', (event) => learn(JSON.parse(event.data)));
  stream.addEventListener('error', () => {
    if (!by('sign-in').hidden) return stream.close();
    link('away', 'the watcher does not answer: trying again …');
    // A browser gives up after an error, such as too many listeners.
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  });
}

function note(told) {
  state = told;
  skew = told.now_ms - Date.now();
  by('store').textContent = told.store.url;
  totals();
  const sick = [[told.dangers, 'danger'], [told.warnings, 'warning']].filter(([n]) => n > 0);
  by('doctor').textContent = told.dangers === null ? '…'
    : sick.map(([n, word]) => `${n} ${word}${n > 1 ? 's' : ''}`).join(', ') || 'all is well';
  if (told.store.is_there) link('live', 'live');
  else if (told.store.is_denied) link('away', 'not allowed');
  else link('away', told.store.away_since_ms === null ? 'connecting …'
    : `the store is away for ${span(since(told.store.away_since_ms))}`);
  dirty = true;
}

// The totals are shown only once the list below them is there.
function totals() {
  if (!state || !listed) return;
  by('held').textContent = state.held;
  by('awaited').textContent = state.awaited;
  by('waiting').textContent = state.waiting;
  by('longest-wait').textContent = span(state.longest_wait_seconds);
  by('longest-hold').textContent = span(state.longest_hold_seconds);
}

function link(is, text) {
  by('link').dataset.is = is;
  by('link').textContent = text;
}

function failed(error) {
  if (error.status !== 401) return link('away', error.message);
  link('wait', 'sign in to see the locks');
  by('sign-in').hidden = false;
}

// ---- the first look: is something stuck?

function verdict() {
  const [is, text] = judge();
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
  const stuck = [...locks.values()].filter((lock) => since(lock.waited_since_ms) >= 60);
  stuck.sort((one, other) => one.waited_since_ms - other.waited_since_ms);
  if (stuck.length > 0) {
    const [worst] = stuck;
    const others = stuck.length > 1 ? `, and ${stuck.length - 1} more` : '';
    return ['bad', `Perhaps stuck: ${worst.name} has been awaited for ${span(since(worst.waited_since_ms))}${others}`];
  }
  if (!state.is_whole) return ['', `Still looking: ${state.keys_so_far} keys so far`];
  if (state.unreadable > 0) {
    const [first] = [...locks.values()].filter((lock) => lock.unreadable);
    const names = state.unreadable === 1 ? '1 name' : `${state.unreadable} names`;
    return ['warn', `${names} cannot be read${first ? `, such as ${first.name}: ${first.unreadable.why}` : ''}`];
  }
  if (state.dangers > 0) return ['warn', 'Nothing is stuck, but the doctor found what breaks a promise'];
  if (state.waiting > 0) return ['good', `Nothing is stuck: ${state.waiting} wait, the longest for ${span(state.longest_wait_seconds)}`];
  return ['good', state.held > 0 ? 'Nothing is stuck: nobody waits' : 'Nothing is held'];
}

// ---- the list, of which only the visible rows exist

function select() {
  const wanted = by('filter').value.toLowerCase();
  const has = (text) => text && text.toLowerCase().includes(wanted);
  const people = (lock) => [...lock.holders, ...lock.waiters].some((one) => has(one.host) || has(one.label));
  shown = [...locks.keys()].filter((name) => has(name) || wanted === '' || people(locks.get(name)));
  let total = locks.size;
  if (by('recent').checked) {
    const free = [...times.keys()].filter((name) => !locks.has(name));
    shown.push(...free.filter((name) => wanted === '' || has(name)));
    total += free.length;
  }
  const last = Infinity;
  const keys = {
    name: () => 0,
    wait: (name) => locks.get(name)?.waited_since_ms ?? last,
    hold: (name) => locks.get(name)?.held_since_ms ?? last,
    rate: (name) => -(locks.get(name)?.entries_per_second ?? 0),
  };
  const key = keys[by('sort').value];
  const keyed = shown.map((name) => [key(name), name]);
  keyed.sort(([a, x], [b, y]) => (a === b ? (x < y ? -1 : 1) : a < b ? -1 : 1));
  shown = keyed.map(([, name]) => name);
  const cut = state?.is_cut ? '; there are more than are watched' : '';
  const yet = state?.is_whole ? '' : ' found so far';
  by('count').textContent = listed ? `${shown.length} of ${total} locks${yet}${cut}` : '';
}

const pool = new Map(); // name -> its visible row

function make() {
  const row = element('div', undefined, 'row');
  row.setAttribute('role', 'option');
  for (const kind of ['name', 'use', 'holder', 'held', 'waits', 'rate', 'seen']) row.append(element('span', '', kind));
  row.append(element('canvas'));
  return row;
}

function draw() {
  if (dirty) {
    select();
    dirty = false;
  }
  verdict();
  const list = by('list');
  const height = parseInt(getComputedStyle(document.documentElement).getPropertyValue('--row'), 10);
  by('rows').style.height = `${shown.length * height}px`;
  const first = Math.max(0, Math.floor(list.scrollTop / height) - 2);
  const visible = shown.slice(first, first + Math.ceil(list.clientHeight / height) + 4);
  const wanted = new Set(visible);
  for (const [name, row] of pool) {
    if (!wanted.has(name)) {
      row.remove();
      pool.delete(name);
    }
  }
  visible.forEach((name, index) => {
    let row = pool.get(name);
    if (!row) {
      row = make();
      row.dataset.name = name;
      pool.set(name, row);
    }
    // The rows are in order for screen readers, too.
    const there = by('rows').children[index];
    if (there !== row) by('rows').insertBefore(row, there ?? null);
    row.id = `row-${first + index}`;
    row.style.top = `${(first + index) * height}px`;
    fill(row, name);
  });
  const at = shown.indexOf(selected);
  if (at >= first && at < first + visible.length) list.setAttribute('aria-activedescendant', `row-${at}`);
  else list.removeAttribute('aria-activedescendant');
}

function fill(row, name) {
  const lock = locks.get(name);
  const put = (index, text) => {
    if (row.children[index].textContent !== text) row.children[index].textContent = text;
  };
  row.setAttribute('aria-selected', String(name === selected));
  row.className = `row${lock ? '' : ' free'}${since(lock?.waited_since_ms) >= 60 ? ' stuck' : ''}${lock?.marks.includes('deadlock') ? ' deadlock' : ''}`;
  row.title = lock ? lock.marks.map((mark) => MARKS[mark] ?? mark).join('; ') : '';
  put(0, name);
  put(1, lock ? use(lock) : 'free');
  put(2, lock ? holder(lock) : '');
  put(3, lock ? span(since(lock.held_since_ms)) : '');
  put(4, !lock ? '' : lock.waiting === 0 ? '–' : `${lock.waiting} wait, ${span(since(lock.waited_since_ms))}`);
  put(5, lock ? lock.entries_per_second.toFixed(2) : '');
  put(6, lock ? span(age(lock)) : '');
  timeline(row.lastChild, name);
}

// The age of a row. Only changes are sent, so an unchanged row is as old as the oldest look.
function age(lock) {
  const told = since(lock.seen_ms);
  if (!state?.store.is_there) return told;
  return Math.min(told, (state.oldest_look_seconds ?? 0) + since(state.now_ms));
}

function timeline(canvas, name) {
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
  const time = times.get(name);
  if (!time) return;
  const end = now();
  const begin = end - Number(by('span').value) * 1000;
  const x = (ms) => ((Math.min(Math.max(ms, begin), end) - begin) / (end - begin)) * width;
  const half = height * 0.55;
  for (const bar of time.bars) {
    if ((bar.to_ms ?? end) < begin) continue;
    const left = x(bar.from_ms);
    context.fillStyle = color(bar.client);
    context.fillRect(left, 1, Math.max(1.5, x(bar.to_ms ?? end) - left - 0.5), half - 2);
  }
  const most = Math.max(1, ...time.queue.map(([, waiting]) => waiting));
  context.fillStyle = '#8a94a0';
  time.queue.forEach(([from, waiting], index) => {
    const to = time.queue[index + 1]?.[0] ?? end;
    const tall = (waiting / most) * (height - half - 1);
    if (waiting > 0 && to > begin) context.fillRect(x(from), height - tall, Math.max(1, x(to) - x(from)), tall);
  });
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `${time.bars.length} holds in the last minutes, at most ${most} waiting`);
}

// ---- one lock

async function open(name) {
  opened = name;
  selected = name;
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
    if (opened === name) body.replaceChildren(...parts(lock));
  } catch (error) {
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
  made.append(swatch, `${one.host}:${one.pid}`);
  return made;
}

// ---- deadlocks: who waits for whom, around to the first

const SVG = 'http://www.w3.org/2000/svg';
const MOST_DRAWN = 8;

function drawn(tag, attributes, text) {
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
  const picture = drawn('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': deadlock.words, class: 'circle' });
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
    picture.append(drawn('path', { d: `M${x} ${y} Q${middleX} ${middleY} ${endX} ${endY}`, class: 'edge' }));
    const [sideX, sideY] = [(-dy / long) * 5, (dx / long) * 5];
    const [backX, backY] = [endX - (dx / long) * 10, endY - (dy / long) * 10];
    picture.append(drawn('path', { d: `M${endX} ${endY} L${backX + sideX} ${backY + sideY} L${backX - sideX} ${backY - sideY} Z`, class: 'tip' }));
    picture.append(drawn('text', { x: (x + 2 * middleX + endX) / 4, y: (y + 2 * middleY + endY) / 4 + 4, class: 'what' }, shortened(wait.name, 24)));
  });
  waits.forEach(({ waiter }, index) => {
    const [x, y] = at(index);
    picture.append(drawn('circle', { cx: x, cy: y, r: 26, class: 'node' }));
    picture.append(drawn('text', { x, y: y + 4, class: 'who' }, shortened(waiter.label ?? String(waiter.pid), 8)));
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
    return [who(wait.waiter), name, span(wait.waited_seconds), `${wait.token ? 'held by ' : 'behind '}${who(wait.behind)}`];
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
  if (lock.foreign) {
    const left = lock.foreign.left_seconds;
    made.push(element('p', `another program, value ${lock.foreign.value}, ${left === null ? 'no end' : `${span(left)} left`}`));
  }
  if (lock.holders.length > 0) {
    const rows = lock.holders.map((one) => [
      person(one, one.holder), one.mode, one.state, new Date(lock.seen_ms - one.held_seconds * 1000).toLocaleString(),
      span(one.held_seconds), span(one.left_seconds), token(one.token), one.label ?? '', take(lock.name, one),
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
    const one = lock.last;
    const row = [person(one, one.holder), new Date(one.ended).toLocaleString(), one.label ?? ''];
    made.push(element('h3', 'Held last'));
    made.push(table(['Last holder', 'Released', 'Label'], [row]));
  }
  if (lock.last_token) made.push(element('p', `last token ${lock.last_token}`, 'dim'));
  return made;
}

function take(name, one) {
  if (!state?.may_revoke || one.state === 'cooldown') return '';
  const button = element('button', 'Revoke …', 'danger');
  button.type = 'button';
  button.addEventListener('click', async () => {
    if (!confirm(`Take ${name} away from ${who(one)}? It is asked to stop and lets go; its token is ${one.token}.`)) return;
    button.disabled = true;
    try {
      await ask(`/api/v1/locks/${encodeURIComponent(name)}/revoke`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ token: one.token }),
      });
      button.textContent = 'asked to stop';
    } catch (error) {
      button.disabled = false;
      if (error.status === 401) return login();
      button.after(element('p', error.message, 'error'));
    }
    setTimeout(detail, 1200);
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

function login() {
  by('login-error').textContent = '';
  by('login').showModal();
  by('token').focus();
}

// ---- keys and buttons

by('login-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const response = await fetch('/login', { method: 'POST', body: new URLSearchParams({ token: by('token').value }) });
  if (!response.ok) {
    by('login-error').textContent = (await response.json()).error;
    return;
  }
  by('token').value = '';
  by('login').close();
  by('sign-in').hidden = true;
  by('sign-out').hidden = false;
  listen();
});
by('sign-in').addEventListener('click', login);
by('sign-out').addEventListener('click', async () => {
  await fetch('/logout', { method: 'POST' });
  location.reload();
});
by('login-cancel').addEventListener('click', () => by('login').close());
by('close').addEventListener('click', () => by('lock').close());
by('close-findings').addEventListener('click', () => by('findings').close());
by('lock').addEventListener('close', () => { opened = null; by('list').focus(); });
by('doctor').addEventListener('click', findings);
by('tools').addEventListener('submit', (event) => event.preventDefault());
for (const id of ['filter', 'sort', 'span', 'recent']) {
  by(id).addEventListener('input', () => { dirty = true; draw(); });
}
by('list').addEventListener('scroll', draw, { passive: true });
by('list').addEventListener('click', (event) => {
  const row = event.target.closest('.row');
  if (row) open(row.dataset.name);
});
by('list').addEventListener('keydown', (event) => {
  const page = Math.max(1, pool.size - 5);
  const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  if (event.key === 'Enter' && selected) {
    // The same key must not also press the button that gets the focus.
    event.preventDefault();
    return open(selected);
  }
  if (!(event.key in steps) || shown.length === 0) return;
  event.preventDefault();
  const at = Math.min(Math.max(shown.indexOf(selected) + steps[event.key], 0), shown.length - 1);
  selected = shown[at];
  const height = parseInt(getComputedStyle(document.documentElement).getPropertyValue('--row'), 10);
  const list = by('list');
  if (at * height < list.scrollTop) list.scrollTop = at * height;
  if ((at + 1) * height > list.scrollTop + list.clientHeight) list.scrollTop = (at + 1) * height - list.clientHeight;
  draw();
});
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target.matches('input, select')) return;
  event.preventDefault();
  by('filter').focus();
});
addEventListener('resize', draw);

ask('/api/v1/state').then(note, failed).then(() => listen());
setInterval(draw, 1000);
