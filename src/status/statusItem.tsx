import { TextItem } from '@jupyterlab/statusbar';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { ISignal, Signal } from '@lumino/signaling';
import * as React from 'react';

import { meterReading } from '../panel/contextMeter';
import { phaseText } from '../panel/activity';
import { IChatPanel } from '../tokens';

/** Small context meter and running state, in the status bar; a click opens the panel. */
export class StatusItem extends ReactWidget {
  constructor(
    private readonly _panel: IChatPanel,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-prime-StatusItem');
    _panel.changed.connect(this._onChange, this);
  }

  /** There is a session to tell about. */
  get isActive(): boolean {
    return this._panel.sessionId !== null;
  }

  get activeStateChanged(): ISignal<this, void> {
    return this._activeStateChanged;
  }

  dispose(): void {
    this._panel.changed.disconnect(this._onChange, this);
    super.dispose();
  }

  protected render(): JSX.Element {
    const { _trans: trans } = this;
    const { conversation } = this._panel;
    const reading = meterReading(conversation, trans);
    const activity = conversation?.activity;
    const doing = activity?.running
      ? phaseText(activity.phase, trans)
      : reading.label;
    return (
      <TextItem
        source={trans.__('Prime: %1', doing)}
        title={reading.details}
        role="button"
        tabIndex={0}
        onClick={() => this._panel.open()}
        onKeyDown={event => {
          if (event.key === 'Enter' || event.key === ' ') {
            event.preventDefault();
            this._panel.open();
          }
        }}
      />
    );
  }

  /** Text that streams by changes nothing here. */
  private _onChange(): void {
    const conversation = this._panel.conversation;
    const now = [
      this._panel.sessionId,
      conversation?.activity.running,
      conversation?.activity.phase,
      conversation?.contextTokens,
      conversation?.threshold,
      conversation?.costUsd,
      conversation?.compactionCount
    ].join(' ');
    if (now !== this._shown) {
      this._shown = now;
      this._activeStateChanged.emit();
      this.update();
    }
  }

  private _shown = '';
  private _activeStateChanged = new Signal<this, void>(this);
}
