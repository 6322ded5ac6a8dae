import * as nbformat from '@jupyterlab/nbformat';
import {
  IOutputAreaModel,
  OutputAreaModel,
  SimplifiedOutputArea
} from '@jupyterlab/outputarea';
import { JSONExt } from '@lumino/coreutils';
import * as React from 'react';

import { IOutput } from '../api/frames';
import { usePanel } from './context';
import { useWidget } from './mimeHost';

/** Number of outputs that are rendered before the user asks for the rest. */
const SHOWN = 20;

/** Notebook outputs in JupyterLab's renderers. They are untrusted, so no scripts run. */
export function OutputsView(props: {
  outputs: readonly IOutput[];
}): JSX.Element {
  const { renderers, trans } = usePanel();
  const rendermime = renderers.current;
  const [host, area] = useWidget(
    () =>
      new SimplifiedOutputArea({
        model: new OutputAreaModel({ trusted: false }),
        rendermime,
        maxNumberOutputs: SHOWN
      }),
    [rendermime]
  );
  const shown = React.useRef<readonly IOutput[]>([]);
  React.useLayoutEffect(() => {
    shown.current = [];
  }, [rendermime]);
  React.useLayoutEffect(() => {
    if (area.current) {
      update(area.current.model, shown.current, props.outputs);
      shown.current = props.outputs;
    }
  }, [rendermime, props.outputs]);
  return (
    <div
      className="jp-prime-Outputs"
      ref={host}
      role="region"
      tabIndex={0}
      aria-label={trans.__('Output')}
    />
  );
}

/**
 * Update the model to the new outputs. Equal outputs are not touched, so that a figure does not
 * flicker when text is added after it.
 */
function update(
  model: IOutputAreaModel,
  shown: readonly IOutput[],
  outputs: readonly IOutput[]
): void {
  // The model merges adjacent streams of the same name, which shifts the positions.
  const aligned =
    model.length === shown.length &&
    outputs.length >= shown.length &&
    !hasNeighbouringStreams(outputs);
  if (!aligned) {
    model.fromJSON(outputs as unknown as nbformat.IOutput[]);
    return;
  }
  outputs.forEach((output, index) => {
    const value = output as unknown as nbformat.IOutput;
    if (index >= shown.length) {
      model.add(value);
    } else if (
      output !== shown[index] &&
      !JSONExt.deepEqual(output as any, shown[index] as any)
    ) {
      model.set(index, value);
    }
  });
}

function hasNeighbouringStreams(outputs: readonly IOutput[]): boolean {
  return outputs.some(
    (output, index) =>
      index > 0 &&
      output.output_type === 'stream' &&
      outputs[index - 1].output_type === 'stream' &&
      outputs[index - 1].name === output.name
  );
}
