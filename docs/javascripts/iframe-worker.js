// Pages opened from disk may start no workers. Search asks for one, so a hidden frame that runs the same script answers.
"use strict";
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      this.waiting = [];
      // what the script sends with postMessage comes here, what it listens to is dispatched in the frame
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inside.importScripts = (...addresses) =>
        addresses.reduce(
          (before, one) =>
            before.then(
              () =>
                new Promise((done, failed) => {
                  const script = inside.document.createElement("script");
                  script.src = one;
                  script.onload = done;
                  script.onerror = failed;
                  inside.document.body.append(script);
                }),
            ),
          Promise.resolve(),
        );
      inside.importScripts(String(address)).then(() => {
        this.waiting.splice(0).forEach((data) => this.deliver(data));
        this.waiting = null;
      });
    }
    deliver(data) {
      const inside = this.frame.contentWindow;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(data);
    }
    terminate() {
      this.frame.remove();
    }
  };
}
