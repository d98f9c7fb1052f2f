// The one place where text becomes markup: htmx hands each answer of this edge to `markup`, which checks it
// against what the console's templates write, and refuses everything else.
(() => {
  "use strict";

  const TAGS = new Set(
    ("a article aside b br button caption circle code dd details dialog div dl dt em fieldset figcaption figure footer form " +
      "g h1 h2 h3 h4 header hr i img input kbd label legend li line main meter mark nav ol optgroup option output p path " +
      "polyline pre rect section select small span strong summary svg table tbody td template text textarea tfoot th thead " +
      "time title tr ul use").split(" "),
  );
  const TAG = /<\/?([a-z][a-z0-9]*)((?:\s+[a-z_:][-a-z0-9_:.]*(?:="[^"<>]*")?)*)\s*\/?>/gi;
  const ATTRIBUTE = /([a-z_:][-a-z0-9_:.]*)(?:="([^"]*)")?/gi;
  const FORBIDDEN = /^(on.*|style|srcdoc|src|srcset|formaction|hx-on.*|hx-vals|hx-headers|hx-config|data-hx-.*|xlink:.*|xmlns:.*)$/i;
  const ADDRESS = /^(href|action|hx-get|hx-post)$/i;
  const OWN_ADDRESS = /^(\/(?!\/)|\?|#|$)/;

  /** Return why an attribute may not stand in markup; empty if it may. */
  const attributeFault = (name, value) => {
    if (FORBIDDEN.test(name)) return `the attribute ${name}`;
    if (ADDRESS.test(name) && !OWN_ADDRESS.test(value ?? "")) return `another address in ${name}`;
    return "";
  };

  /** Return what speaks against a text as markup; empty if nothing does. */
  const faultOf = (text) => {
    let fault = "";
    const rest = text.replace(TAG, (_, tag, attributes) => {
      if (!TAGS.has(tag.toLowerCase())) fault ||= `the element ${tag}`;
      for (const [, name, value] of attributes.matchAll(ATTRIBUTE)) fault ||= attributeFault(name, value);
      return "";
    });
    return fault || (rest.includes("<") ? "a bracket that begins no element" : "");
  };

  const markup = (text) => {
    const fault = faultOf(text);
    if (fault) throw new TypeError(`this is no markup of the console: it has ${fault}`);
    return text;
  };
  const policy = globalThis.trustedTypes?.createPolicy("scoregate", { createHTML: markup }) ?? { createHTML: markup };

  /** Stands in for the constructors of functions from text, which htmx would use for `hx-on` and `js:`. */
  function NoCode() {
    throw new TypeError("the console runs no code from attributes");
  }

  htmx.registerExtension("scoregate", { init: (api) => api.initSecurity(policy, NoCode, NoCode) });
})();
