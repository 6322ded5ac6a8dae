/**
 * Shortened outputs for `read`: the server needs the content of the notebook without its figures.
 */
import * as nbformat from '@jupyterlab/nbformat';

import { cutMiddle, joined } from './text';

/** Number of characters of a text that are kept at each end. */
const END = 2000;

/**
 * Cut long texts in the middle and replace rich data by its size; the same as `shorten_outputs` on
 * the server.
 */
export function shortenOutputs(outputs: nbformat.IOutput[]): any[] {
  return outputs.map((output: any) => {
    if (output.output_type === 'stream') {
      return { ...output, text: shorten(output.text) };
    }
    if (output.output_type === 'error') {
      return {
        ...output,
        evalue: shorten(output.evalue),
        traceback: [shorten((output.traceback ?? []).join('\n'))]
      };
    }
    const data: Record<string, any> = {};
    for (const [mime, value] of Object.entries(output.data ?? {})) {
      data[mime] =
        mime === 'text/plain' ? shorten(value) : { chars: sizeOf(value) };
    }
    return { ...output, data, metadata: {} };
  });
}

function shorten(text: unknown): string {
  return cutMiddle(joined(text), END);
}

function sizeOf(value: unknown): number {
  return typeof value === 'string' || Array.isArray(value)
    ? joined(value).length
    : (JSON.stringify(value) ?? '').length;
}
