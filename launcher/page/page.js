// Shows what /job and /ranks answer, every two seconds. Text from there is only ever set as text.
'use strict';

const PAUSE_MS = 2000;
const PATIENCE_MS = 10000;
const NAMES = {
  s: 'starting',
  c: 'computing',
  o: 'operation',
  w: 'waiting',
  t: 'stopped',
  '?': 'unrecorded'
};
const KINDS = Object.values(NAMES);
const NOW = {
  s: 'starting',
  c: 'computing',
  o: 'in an operation',
  w: 'waits for a late rank',
  t: 'stopped',
  '?': 'running'
};
// How high a strip is by kind, of its row: so the kinds differ without colours, too.
const HEIGHT = {
  s: 0.55,
  c: 0.35,
  o: 0.7,
  w: 1,
  t: 1,
  '?': 0.2
};
const FEW = 64;  // ranks, which have a row with a label each; more are a heat map
const NOTICED = 3;  // a rank with more of careFor() has its label in bold
const SVG = 'http://www.w3.org/2000/svg';

const $ = id => document.getElementById(id);
let kindWords = {};
let timeKinds = [];
let shown = {job: null, ranks: [], nodes: []};
let chosen = -1;

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function words(seconds) {
  if (seconds < 1) return Math.round(seconds * 1000) + ' ms';
  if (seconds < 60) return seconds.toFixed(seconds < 10 ? 1 : 0) + ' s';
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return minutes + ' min ' + Math.floor(seconds % 60) + ' s';
  return Math.floor(minutes / 60) + ' h ' + (minutes % 60) + ' min';
}

function counted(count, thing) { return count + ' ' + thing + (count === 1 ? '' : 's'); }

function bytes(count) {
  return count < 1 << 30 ? Math.round(count / (1 << 20)) + ' MiB' : (count / (1 << 30)).toFixed(1) + ' GiB';
}

function rate(perSecond) {
  return perSecond >= 100 ? Math.round(perSecond) : perSecond >= 0.05 ? perSecond.toFixed(1) : '0';
}

// --- the whole job ---

function showHead(job) {
  document.title = job.job + ': ' + job.state + ' - dlaunch';
  $('job').textContent = job.job;
  $('state').textContent = job.state;
  $('facts').textContent = job.round < 0 ? '' :
                                           counted(job.world_size, 'rank') + ' on ' +
          counted(job.nodes.length, 'node') + ', round ' + job.round + ', ' + job.restarts_used + ' of ' +
          counted(job.max_restarts, 'restart') + ' used, for ' + words(job.age);
  $('waiting').textContent = job.waiting_for ? 'waiting for ' + job.waiting_for : '';
}

function showFindings(job, nodes) {
  const own = nodes.flatMap(
      node => node.findings.map(one => nodes.length === 1 ? one : 'on ' + node.host + ': ' + one));
  const all = job.collectives.length > 0 ? job.collectives : own;
  $('findings').replaceChildren(...all.map(one => element('li', one)));
}

const PARTS = {
  detect: 'noticed after',
  stop: 'stopped in',
  decide: 'decided in',
  start: 'started in',
  first_operation: 'first operation after'
};

// What the restart that is so many before the last one took: of the slowest node. Nodes that came later have fewer.
function partsOf(nodes, before) {
  const ofNodes = nodes.map(node => node.restarts[node.restarts.length - 1 - before]).filter(one => one);
  if (ofNodes.length === 0) return '';
  return Object.entries(PARTS)
      .map(([part, what]) => [what, Math.max(...ofNodes.map(one => one[part]))])
      .filter(([, seconds]) => seconds > 0)
      .map(([what, seconds]) => what + ' ' + words(seconds))
      .join(', ');
}

// The job's whole time, with a tick for each restart.
function showCourse(job, nodes) {
  $('incidents').replaceChildren(...job.incidents.map((one, i) => {
    const item = element(
        'li',
        (one.number > 0 ? 'restart ' + one.number : 'loss') + ' after ' + words(one.after) + ': ' + one.text);
    const parts = partsOf(nodes, job.incidents.length - 1 - i);
    if (parts) item.append(element('span', ' (' + parts + ')', 'quiet'));
    return item;
  }));
  const line = shape('svg', {
    viewBox: '0 0 1000 18',
    height: 18,
    preserveAspectRatio: 'none',
    role: 'img',
    'aria-label': counted(job.incidents.length, 'restart or loss') + ' in ' + words(job.age)
  });
  for (const one of job.incidents) {
    const x = 1000 * Math.min(1, one.after / Math.max(job.age, 1e-9));
    const tick = shape('line', {x1: x, x2: x, y1: 0, y2: 18, class: 'tick'});
    tick.append(Object.assign(shape('title', {}), {textContent: one.text}));
    line.append(tick);
  }
  $('line').replaceChildren(...(job.incidents.length > 0 ? [line] : []));
}

// `kinds`: for each of the times, {name: as in the CSS, words}.
function fillBar(bar, times, kinds) {
  const sum = times.reduce((a, b) => a + b, 0);
  bar.replaceChildren(...times.flatMap((seconds, i) => {
    if (!(seconds > 0)) return [];
    const part = element('span', undefined, 'k-' + kinds[i].name);
    part.style.flexGrow = String(seconds / sum);
    part.title = kinds[i].words + ': ' + Math.round(100 * seconds / sum) + ' %';
    return [part];
  }));
  bar.setAttribute(
      'aria-label',
      times.map((seconds, i) => kinds[i].words + ' ' + Math.round(100 * seconds / (sum || 1)) + ' %').join(', '));
}

const ofRound = () => KINDS.map(name => ({name: name, words: kindWords[name]}));

// Of all nodes, since the start.
function showTimes(nodes) {
  const sums = timeKinds.map((_, i) => nodes.reduce((sum, node) => sum + (node.times[i] || 0), 0));
  const all = sums.reduce((a, b) => a + b, 0);
  $('time').hidden = all <= 0;
  fillBar($('bar'), sums, timeKinds);
  const good = nodes.reduce((sum, node) => sum + node.goodput * node.times.reduce((a, b) => a + b, 0), 0);
  $('goodput').textContent = all > 0 ? (100 * good / all).toFixed(1) + ' % goodput' : '';
  $('legend').replaceChildren(...timeKinds.flatMap((kind, i) => {
    if (sums[i] <= 0) return [];
    const item = element('li');
    item.dataset.kind = kind.name;
    item.append(
        element('span', undefined, 'key k-' + kind.name),
        kind.words + ' ' + (100 * sums[i] / all).toFixed(1) + ' %',
        element('span', ' ' + words(sums[i]), 'quiet'));
    return [item];
  }));
}

// --- the last minutes ---

function rowHeight(count) {
  return count <= 16 ? 20 : count <= FEW ? 13 : Math.max(1, Math.floor(640 / count));
}

// One path for each kind: however many ranks there are, the browser has few shapes to draw.
function pathsOf(ranks, width, height) {
  const paths = {};
  ranks.forEach((rank, row) => {
    const samples = rank.samples;
    const begin = width - samples.length;
    for (let at = 0; at < samples.length;) {
      let end = at + 1;
      while (end < samples.length && samples[end] === samples[at]) ++end;
      const letter = samples[at];
      if (NAMES[letter]) {
        const high = ranks.length <= FEW ? Math.round((height - 3) * HEIGHT[letter]) : height;
        const bottom = (row + 1) * height - (ranks.length <= FEW ? 1 : 0);
        paths[letter] = (paths[letter] || '') + 'M' + (begin + at) + ' ' + bottom + 'h' + (end - at) + 'v-' +
            high + 'h-' + (end - at) + 'z';
      }
      at = end;
    }
  });
  return paths;
}

// In a map there is not room for all: those that deserve a look come first.
function showLabels(ranks, height) {
  const room = 14;
  const rows = ranks.map((_, row) => row);
  const first = rows.filter(row => careFor(ranks[row]) >= NOTICED);
  const taken = [];
  for (const row of [...first, ...rows]) {
    const isFree = taken.every(other => Math.abs(other - row) * height >= (ranks.length > FEW ? room : 1));
    if (isFree) taken.push(row);
  }
  $('labels').style.height = ranks.length * height + 'px';
  $('labels').replaceChildren(...taken.map(row => {
    const label = element('span', String(ranks[row].rank), careFor(ranks[row]) >= NOTICED ? 'noticed' : '');
    label.style.top = row * height + (height - 11) / 2 + 'px';
    return label;
  }));
}

function showHistory(job, ranks, period) {
  const longest = Math.max(0, ...ranks.map(rank => rank.samples.length));
  $('history').hidden = longest === 0;
  if (longest === 0) return;
  const width = Math.max(30, longest);
  const height = rowHeight(ranks.length);
  const drawn = shape('svg', {
    viewBox: '0 0 ' + width + ' ' + ranks.length * height,
    height: ranks.length * height,
    preserveAspectRatio: 'none',
    role: 'img',
    'aria-label': 'what ' + counted(ranks.length, 'rank') + ' did in the last ' + words(width * period)
  });
  for (const [letter, path] of Object.entries(pathsOf(ranks, width, height))) {
    const one = shape('path', {d: path, class: 'k-' + NAMES[letter]});
    one.dataset.kind = NAMES[letter];
    drawn.append(one);
  }
  for (const incident of job.incidents) {
    const x = width - (job.age - incident.after) / period;
    if (x > 0) drawn.append(shape('line', {x1: x, x2: x, y1: 0, y2: ranks.length * height, class: 'tick'}));
  }
  const row = ranks.findIndex(rank => rank.rank === chosen);
  if (row >= 0)
    drawn.append(shape('rect', {x: 0, y: row * height, width: width, height: height, class: 'mark'}));
  drawn.addEventListener('click', event => {
    const box = drawn.getBoundingClientRect();
    const at = Math.floor((event.clientY - box.top) / box.height * ranks.length);
    choose(ranks[Math.min(Math.max(at, 0), ranks.length - 1)].rank);
  });
  $('strips').replaceChildren(drawn);
  showLabels(ranks, height);
  $('minutes').textContent = words(width * period);
  $('oldest').textContent = words(width * period) + ' ago';
}

// --- the ranks ---

function nowOf(rank) {
  if (rank.state !== 'running') return rank.state;
  return NOW[rank.samples[rank.samples.length - 1]] || rank.state;
}

function doingOf(rank) {
  if (!rank.operation) return '-';
  return rank.inside ? 'in ' + rank.operation + ' for ' + words(rank.operation_s) :
                       'after ' + rank.operation + ', ' + words(rank.operation_s) + ' ago';
}

// The larger, the more it deserves a look.
function careFor(rank) {
  const weight = {stopped: 5, ended: 4, starting: 1}[rank.state] || 0;
  const others = shown.ranks.some(one => one.samples.endsWith('w'));
  return weight + (others && !rank.inside ? 3 : 0) + (rank.late_s > 0 ? 1 - 1 / (1 + rank.late_s) : 0);
}

function sorted(ranks) {
  const keys = {care: careFor, late: rank => rank.late_s, memory: rank => rank.memory};
  const key = keys[$('sort').value];
  return key ? [...ranks].sort((a, b) => key(b) - key(a) || a.rank - b.rank) : ranks;
}

function rankRow(rank) {
  const row = element('tr', undefined, rank.rank === chosen ? 'chosen' : '');
  row.dataset.rank = rank.rank;
  const number = element('td', undefined, 'number');
  const button = element('button', String(rank.rank));
  button.type = 'button';
  button.title = 'show rank ' + rank.rank;
  number.append(button);
  const state = element('td');
  const letter = rank.state === 'running' ? rank.samples.slice(-1) : rank.state === 'stopped' ? 't' : '';
  if (NAMES[letter]) state.append(element('span', undefined, 'key k-' + NAMES[letter]));
  state.append(nowOf(rank));
  const split = element('td', undefined, 'wide');
  const bar = element('div', undefined, 'bar');
  fillBar(bar, rank.times, ofRound());
  split.append(bar);
  const last = element('td', rank.last_output, 'last');
  last.title = rank.last_output;
  row.append(
      number, element('td', rank.host, 'wide'), state, element('td', doingOf(rank), 'doing'),
      element('td', rate(rank.rate), 'number wide'), element('td', bytes(rank.memory), 'number'),
      element('td', rank.came_last > 0 ? words(rank.late_s) : '-', 'number wide'), split, last);
  row.addEventListener('click', () => choose(rank.rank));
  return row;
}

function showRanks(ranks) {
  const heads = [
    ['Rank', 'number'], ['Host', 'wide'], ['State'], ['Operation'], ['Per s', 'number wide'], ['Memory', 'number'],
    ['Late', 'number wide'], ['Time', 'wide'], ['Last line', 'last']
  ];
  $('ranks').tHead.rows[0].replaceChildren(...heads.map(([text, kind]) => element('th', text, kind)));
  const focused = document.activeElement && document.activeElement.closest('#ranks tr');
  const again = focused ? focused.dataset.rank : null;
  $('ranks').tBodies[0].replaceChildren(...sorted(ranks).map(rankRow));
  const back = again !== null && $('ranks').querySelector('tr[data-rank="' + Number(again) + '"] button');
  if (back) back.focus({preventScroll: true});
}

function showNodes(job) {
  $('nodes').tBodies[0].replaceChildren(...job.nodes.map(node => {
    const last = node.first_rank + node.workers - 1;
    const ranks = node.first_rank < 0 ? '-' :
        node.workers === 1            ? String(last) :
                                        node.first_rank + '-' + last;
    const row = element('tr');
    row.append(...[node.node_rank < 0 ? '-' : String(node.node_rank), node.host, node.state, ranks].map(
        text => element('td', text)));
    return row;
  }));
}

function showDetail() {
  const rank = shown.ranks.find(one => one.rank === chosen);
  $('detail').hidden = !rank;
  if (!rank) return;
  $('detail-title').textContent = 'Rank ' + rank.rank + ', ' + nowOf(rank);
  const facts = {
    'on': 'host ' + rank.host + ', process ' + rank.pid,
    'main thread': rank.doing,
    'operation': doingOf(rank),
    'operations': rate(rank.rate) + ' a second',
    'memory': bytes(rank.memory),
    'late': rank.came_last > 0 ? 'came last ' + counted(rank.came_last, 'time') + ', ' + words(rank.late_s) +
            ' after the rank before it' :
                                 'never last',
    'time':
        rank.times.flatMap((seconds, i) => seconds > 0 ? [kindWords[KINDS[i]] + ' ' + words(seconds)] : [])
            .join(', ')
  };
  $('detail-facts')
      .replaceChildren(
          ...Object.entries(facts).flatMap(([name, text]) => [element('dt', name), element('dd', text)]));
  fillBar($('detail-bar'), rank.times, ofRound());
  if (rank.last_lines) $('detail-lines').textContent = rank.last_lines;
}

function choose(rank) {
  chosen = chosen === rank ? -1 : rank;
  $('detail-lines').textContent = '';
  show();
  look();
}

// --- the loop ---

function show() {
  const {job, ranks, nodes} = shown;
  if (!job) return;
  showHead(job);
  showFindings(job, nodes);
  showCourse(job, nodes);
  showTimes(nodes);
  showHistory(job, sorted(ranks), nodes.length > 0 ? nodes[0].period_s : 2);
  showRanks(ranks);
  showNodes(job);
  showDetail();
  $('order').hidden = ranks.length === 0;
}

async function answerOf(path) {
  const answer = await fetch(path, {signal: AbortSignal.timeout(PATIENCE_MS)});
  if (!answer.ok) throw new Error(path + ': ' + answer.status + ' ' + answer.statusText);
  return answer.json();
}

let heard = Date.now();
async function look() {
  try {
    const [job, all] = await Promise.all([answerOf('job'), answerOf('ranks?rank=' + chosen)]);
    timeKinds = all.time_kinds;
    kindWords = Object.fromEntries(all.kinds.map(kind => [NAMES[kind.letter], kind.name]));
    const ranks = all.nodes.flatMap(node => node.ranks.map(rank => ({...rank, host: node.host})));
    shown = {job, nodes: all.nodes, ranks: ranks.sort((a, b) => a.rank - b.rank)};
    heard = Date.now();
    show();
    $('updated').textContent = 'updated at ' + new Date(heard).toLocaleTimeString();
    document.body.dataset.updated = String(Number(document.body.dataset.updated || 0) + 1);
    $('silence').hidden = true;
  } catch (error) {
    $('silence').hidden = false;
    $('silence').textContent = 'No answer for ' + words((Date.now() - heard) / 1000) +
        ': the job has ended, or its first node cannot be reached. (' + error.message + ')';
  }
}

async function loop() {
  if (!document.hidden) await look();
  setTimeout(loop, PAUSE_MS);
}

$('sort').addEventListener('change', show);
$('close').addEventListener('click', () => choose(chosen));
document.addEventListener('keydown', event => {
  if (event.key === 'Escape' && chosen >= 0) choose(chosen);
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) look();
});
loop();
