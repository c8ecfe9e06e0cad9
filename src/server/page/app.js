'use strict';

// ---- state: the conversation and the settings live in this browser only

const CHAT_KEY = 'strata.chat';
const SETTINGS_KEY = 'strata.settings';
const SETTING_IDS = ['temperature', 'max-tokens', 'thinking', 'effort', 'system', 'key'];

const $ = (id) => document.getElementById(id);

let chat = [];           // {role, content, reasoning?, note?}
let controller = null;   // of the request in flight

function load(key, fallback) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? fallback;
  } catch {
    return fallback;
  }
}

function save(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // Storage may be full or switched off; the page works without it.
  }
}

// ---- markdown: built from text nodes, so that nothing in an answer becomes markup

function element(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

// `code`, **bold** and *emphasis* of one line.
function inline(text) {
  const out = document.createDocumentFragment();
  const pattern = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*/g;
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    out.append(text.slice(end, match.index));
    if (match[1] !== undefined) out.append(element('code', '', match[1]));
    else if (match[2] !== undefined) out.append(element('strong', '', match[2]));
    else out.append(element('em', '', match[3]));
    end = match.index + match[0].length;
  }
  out.append(text.slice(end));
  return out;
}

function codeBlock(language, code) {
  const copy = element('button', '', 'Copy');
  copy.type = 'button';
  copy.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(code);
      copy.textContent = 'Copied';
    } catch {
      copy.textContent = 'Not allowed';
    }
    setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
  });
  return element('div', 'block',
    element('div', 'bar', element('span', '', language), copy),
    element('pre', '', element('code', '', code)));
}

function markdown(text) {
  const out = document.createDocumentFragment();
  const lines = text.split('\n');
  const item = /^\s*(?:([-*+])|\d+[.)])\s+(.*)$/;
  let paragraph = [];
  const flush = () => {
    if (paragraph.length === 0) return;
    const p = element('p');
    paragraph.forEach((line, i) => {
      if (i > 0) p.append(element('br'));
      p.append(inline(line));
    });
    out.append(p);
    paragraph = [];
  };
  for (let i = 0; i < lines.length; i++) {
    const fence = lines[i].match(/^\s*(`{3,}|~{3,})\s*([\w+#.-]*)/);
    const heading = lines[i].match(/^(#{1,6})\s+(.*)$/);
    const entry = lines[i].match(item);
    if (fence) {
      flush();
      const code = [];
      for (i++; i < lines.length && !lines[i].trim().startsWith(fence[1]); i++) code.push(lines[i]);
      out.append(codeBlock(fence[2], code.join('\n')));
    } else if (heading) {
      flush();
      out.append(element(heading[1].length < 3 ? 'h3' : 'h4', '', inline(heading[2])));
    } else if (entry) {
      flush();
      const ordered = entry[1] === undefined;
      const list = element(ordered ? 'ol' : 'ul');
      if (ordered) list.start = parseInt(lines[i], 10) || 1;
      for (let next = entry; next && (next[1] === undefined) === ordered;) {
        list.append(element('li', '', inline(next[2])));
        next = i + 1 < lines.length ? lines[i + 1].match(item) : null;
        if (next && (next[1] === undefined) === ordered) i++;
      }
      out.append(list);
    } else if (lines[i].trim() === '') {
      flush();
    } else {
      paragraph.push(lines[i]);
    }
  }
  flush();
  return out;
}

// ---- the conversation on the page

function show(message) {
  const node = element('article', message.role);
  const view = { node, message };
  if (message.role === 'user') {
    node.textContent = message.content;
  } else {
    view.thought = element('div', 'thought');
    view.summary = element('summary');
    view.details = element('details', '', view.summary, view.thought);
    view.body = element('div', 'body');
    view.note = element('p', 'note dim');
    node.append(view.details, view.body, view.note);
    refresh(view, false);
  }
  $('empty').hidden = true;
  $('log').append(node);
  return view;
}

function refresh(view, running) {
  const m = view.message;
  view.details.hidden = !m.reasoning;
  view.summary.textContent = running && !m.content ? 'Thinking\u2026' : 'Thoughts';
  if (view.thought.textContent !== (m.reasoning || '')) view.thought.textContent = m.reasoning || '';
  view.body.replaceChildren(markdown(m.content));
  view.note.textContent = m.note || '';
}

// Follows the end of the conversation unless the reader has scrolled away from it.
function keepingBottom(change) {
  const log = $('log');
  const atBottom = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  change();
  if (atBottom) log.scrollTop = log.scrollHeight;
}

function problem(text) {
  $('problem').textContent = text;
  $('problem').hidden = !text;
}

// ---- talking to the server

function headers() {
  const out = { 'Content-Type': 'application/json' };
  const key = $('key').value.trim();
  if (key) out.Authorization = 'Bearer ' + key;
  return out;
}

function requestBody() {
  const messages = chat.map((m) => m.role === 'user'
    ? { role: 'user', content: m.content }
    : { role: 'assistant', content: m.content, ...(m.reasoning ? { reasoning_content: m.reasoning } : {}) });
  const system = $('system').value.trim();
  if (system) messages.unshift({ role: 'system', content: system });
  const body = { messages, stream: true, enable_thinking: $('thinking').checked };
  const temperature = parseFloat($('temperature').value);
  const limit = parseInt($('max-tokens').value, 10);
  if (Number.isFinite(temperature)) body.temperature = temperature;
  if (Number.isFinite(limit)) body.max_tokens = limit;
  if ($('thinking').checked && $('effort').value) body.reasoning_effort = $('effort').value;
  return body;
}

// The data of the server-sent events in a response, one after the other.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    for (let end; (end = buffer.indexOf('\n\n')) >= 0;) {
      const event = buffer.slice(0, end);
      buffer = buffer.slice(end + 2);
      if (event.startsWith('data: ')) yield event.slice(6);
    }
  }
}

async function errorOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The server answered with status ${response.status}.`;
  }
}

async function answer() {
  const conversation = chat;  // "New chat" puts another one in its place
  controller = new AbortController();
  busy(true);
  const message = { role: 'assistant', content: '', reasoning: '' };
  let view = null;
  let scheduled = false;
  let finished = false;
  const update = () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      keepingBottom(() => refresh(view, !finished));
    });
  };
  try {
    const response = await fetch('v1/chat/completions', {
      method: 'POST', headers: headers(), body: JSON.stringify(requestBody()), signal: controller.signal,
    });
    if (!response.ok) throw new Error(await errorOf(response));
    keepingBottom(() => { view = show(message); });
    for await (const data of events(response)) {
      if (data === '[DONE]') break;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message);
      const choice = event.choices[0];
      if (choice) {
        message.reasoning += choice.delta.reasoning_content || '';
        message.content += choice.delta.content || '';
        if (choice.finish_reason) finished = true;
        if (choice.finish_reason === 'length') message.note = 'Cut off at the token limit.';
      }
      if (event.timings) {
        const t = event.timings;
        message.note = [message.note, `${t.predicted_n} tokens, ${t.predicted_per_second.toFixed(1)} tokens/s; ` +
          `prompt ${t.prompt_n + t.cache_n} tokens (${t.cache_n} cached), ${t.prompt_per_second.toFixed(0)} tokens/s`]
          .filter(Boolean).join(' ');
      }
      update();
    }
    if (!finished) throw new Error('The connection ended before the answer did.');
  } catch (error) {
    if (error.name === 'AbortError') message.note = 'Stopped.';
    else problem(error instanceof TypeError ? 'The server cannot be reached.' : error.message);
  } finally {
    finished = true;
    controller = null;
    busy(false);
    if (conversation !== chat) {
      problem('');
    } else if (view && (message.content || message.reasoning)) {
      chat.push(message);
      keepingBottom(() => refresh(view, false));
    } else if (view) {
      view.node.remove();
    }
    save(CHAT_KEY, chat);
  }
}

async function showModel() {
  try {
    const health = await (await fetch('health')).json();
    if (health.status !== 'ok') {
      $('model').textContent = health.status === 'loading'
        ? `loading, ${Math.round(health.progress * 100)} %` : `failed: ${health.message}`;
      setTimeout(showModel, 1000);
      return;
    }
    const response = await fetch('v1/models', { headers: headers() });
    $('model').textContent = response.ok ? (await response.json()).data[0].id : '';
  } catch {
    $('model').textContent = 'not reachable';
    setTimeout(showModel, 3000);
  }
}

// ---- controls

function busy(on) {
  $('send').hidden = on;
  $('stop').hidden = !on;
}

function fitInput() {
  const input = $('input');
  input.rows = Math.min(12, input.value.split('\n').length);
}

function submit() {
  const text = $('input').value.trim();
  if (!text || controller) return;
  problem('');
  const last = chat[chat.length - 1];
  // A question that got no answer is replaced, so that the roles keep alternating.
  if (last && last.role === 'user') {
    chat.pop();
    $('log').lastElementChild.remove();
  }
  const message = { role: 'user', content: text };
  chat.push(message);
  show(message);
  $('log').scrollTop = $('log').scrollHeight;
  $('input').value = '';
  fitInput();
  save(CHAT_KEY, chat);
  answer();
}

function newChat() {
  if (controller) controller.abort();
  chat = [];
  save(CHAT_KEY, chat);
  for (const node of document.querySelectorAll('article')) node.remove();
  $('empty').hidden = false;
  problem('');
  $('input').focus();
}

function readSettings() {
  const stored = load(SETTINGS_KEY, {});
  for (const id of SETTING_IDS) {
    const field = $(id);
    if (stored[id] === undefined) continue;
    if (field.type === 'checkbox') field.checked = stored[id];
    else field.value = stored[id];
  }
}

function writeSettings() {
  const out = {};
  for (const id of SETTING_IDS) out[id] = $(id).type === 'checkbox' ? $(id).checked : $(id).value;
  save(SETTINGS_KEY, out);
}

$('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  submit();
});
$('input').addEventListener('input', fitInput);
$('input').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit();
  }
});
$('stop').addEventListener('click', () => controller && controller.abort());
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && controller) controller.abort();
});
$('new').addEventListener('click', newChat);
$('settings-button').addEventListener('click', () => {
  $('settings').hidden = !$('settings').hidden;
  $('settings-button').setAttribute('aria-expanded', String(!$('settings').hidden));
});
$('settings').addEventListener('submit', (event) => event.preventDefault());
$('settings').addEventListener('change', () => {
  writeSettings();
  showModel();
});

readSettings();
chat = load(CHAT_KEY, []).filter((m) => m && typeof m.content === 'string');
chat.forEach(show);
$('log').scrollTop = $('log').scrollHeight;
fitInput();
showModel();
