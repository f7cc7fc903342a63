// Follows the cluster: when the master says that something changed, the page asks for itself again and replaces the parts
// that differ. Without the stream it looks at intervals. It keeps no state of its own.
"use strict";

(function () {
  const minGap = 1000; // between two looks
  const slowLook = 5000; // without the stream, and for ages that pass by themselves
  let looking = false, wanted = false, last = 0, source = null, streaming = false;

  function status(kind, text) {
    const dot = document.querySelector("[data-status]");
    if (!dot) return;
    dot.className = "live " + kind;
    dot.title = text;
    dot.setAttribute("aria-label", text);
    document.body.classList.toggle("stale", kind === "off");
  }

  // Rows that are new or say something else than before light up.
  function flash(before, after) {
    const old = new Map();
    for (const row of before.querySelectorAll("tr[id]")) old.set(row.id, row.dataset.v);
    if (old.size === 0) return;
    for (const row of after.querySelectorAll("tr[id]")) {
      if (old.get(row.id) !== row.dataset.v) row.classList.add("changed");
    }
  }

  function adopt(text) {
    const next = new DOMParser().parseFromString(text, "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const now = next.querySelector('[data-live="' + part.dataset.live + '"]');
      if (!now || now.outerHTML === part.dataset.was) continue;
      const was = now.outerHTML;
      flash(part, now);
      const fresh = document.importNode(now, true);
      fresh.dataset.was = was;
      part.replaceWith(fresh);
    }
    document.title = next.title;
  }

  async function look() {
    if (document.hidden) { wanted = true; return; }
    if (looking) { wanted = true; return; }
    looking = true;
    wanted = false;
    await new Promise((done) => setTimeout(done, Math.max(0, last + minGap - Date.now())));
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (answer.status === 401) { location.reload(); return; }
      if (answer.ok) {
        adopt(await answer.text());
        status("on", streaming ? "follows the cluster" : "looks every few seconds");
      }
    } catch (e) {
      status("off", "this master does not answer; what is shown is from " + new Date(last).toLocaleTimeString());
    }
    if (!document.body.classList.contains("stale")) last = Date.now();
    looking = false;
    if (wanted) look();
  }

  function follow() {
    source = new EventSource("/events");
    let first = true;
    source.addEventListener("open", () => { streaming = true; });
    source.addEventListener("change", () => {
      if (first) { first = false; if (Date.now() - last < minGap) { status("on", "follows the cluster"); return; } }
      look();
    });
    source.addEventListener("error", () => {
      streaming = false;
      look();
      if (source.readyState === EventSource.CLOSED) setTimeout(follow, 4 * slowLook); // refused: too many follow
    });
  }

  // The end of a log: what was written since is asked for and appended.
  function tail(box) {
    const keep = 512 * 1024, pre = document.querySelector("[data-log]"), range = document.querySelector("[data-range]");
    let next = Number(box.dataset.next), busy = false;
    pre.scrollTop = pre.scrollHeight;
    setInterval(async () => {
      if (!box.checked || busy || document.hidden) return;
      busy = true;
      try {
        const answer = await fetch(box.dataset.follow + "?offset=" + next + "&limit=262144", { cache: "no-store" });
        const after = Number(answer.headers.get("Hearth-Log-Next"));
        if (answer.ok && after > next) {
          const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 20;
          const text = pre.textContent + (await answer.text());
          pre.textContent = text.length > keep ? text.slice(-keep) : text;
          next = after;
          if (range) range.textContent = "up to byte " + next.toLocaleString("en");
          const empty = document.querySelector("[data-empty]");
          if (empty) empty.remove();
          if (atEnd) pre.scrollTop = pre.scrollHeight;
        }
        status(answer.ok ? "on" : "off", answer.ok ? "follows the output" : "the output cannot be read now");
      } catch (e) {
        status("off", "this master does not answer");
      }
      busy = false;
    }, 1000);
  }

  const box = document.querySelector("[data-follow]");
  if (box) { tail(box); return; }
  if (!document.querySelector("[data-live]")) return;
  last = Date.now();
  status("on", "follows the cluster");
  follow();
  setInterval(look, slowLook);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
})();
