// Preloaded into servers that would listen on all addresses: they listen on this machine's own only.
const net = require("node:net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  if (typeof args[0] === "number" || typeof args[0] === "string") {
    const port = args[0];
    const callback = args.find((arg) => typeof arg === "function");
    return listen.call(this, { port: Number(port), host: "127.0.0.1" }, callback);
  }
  return listen.call(this, { ...args[0], host: "127.0.0.1" }, ...args.slice(1));
};
