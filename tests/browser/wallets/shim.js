// What packages made for Node find missing in a browser.
import { Buffer } from 'buffer';
import process from 'process/browser';

globalThis.Buffer ??= Buffer;
globalThis.process ??= process;
