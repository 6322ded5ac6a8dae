import { PathExt } from '@jupyterlab/coreutils';
import { TextItem } from '@jupyterlab/statusbar';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { ISignal, Signal } from '@lumino/signaling';
import * as React from 'react';

import { ISessionSummary } from '../api/rest';
import { meterReading } from '../panel/contextMeter';
import { activityText, phaseText } from '../panel/activity';
import { IActiveSessions, IChatPanel } from '../tokens';

/**
 * The status bar item: the context meter or the current activity, and the number of other sessions
 * that are waiting or working. A click opens the panel, with a waiting session if there is one.
 */
export class StatusItem extends ReactWidget {
  constructor(
    private readonly _panel: IChatPanel,
    private readonly _active: IActiveSessions,
    private readonly _show: (session: string) => void,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-prime-StatusItem');
    _panel.changed.connect(this._onChange, this);
    _active.changed.connect(this._onChange, this);
  }

  /** Whether there is a session to show. */
  get isActive(): boolean {
    return this._panel.sessionId !== null || this._others().length > 0;
  }

  get activeStateChanged(): ISignal<this, void> {
    return this._activeStateChanged;
  }

  dispose(): void {
    this._panel.changed.disconnect(this._onChange, this);
    this._active.changed.disconnect(this._onChange, this);
    super.dispose();
  }

  protected render(): JSX.Element {
    const { _trans: trans } = this;
    const { conversation } = this._panel;
    const reading = meterReading(conversation, trans);
    const doing = this._doing() ?? reading.label;
    const here = this._panel.sessionId !== null;
    const others = this._others();
    const waiting = others.filter(waits).length;
    const working = others.length - waiting;
    const told = [
      ...(here ? [doing] : []),
      ...(waiting
        ? [trans._n('%1 waits for you', '%1 wait for you', waiting)]
        : []),
      ...(working ? [trans._n('%1 works', '%1 work', working)] : [])
    ];
    const details = [
      ...(here ? [reading.details] : []),
      ...others.map(one =>
        trans.__(
          '%1: %2',
          PathExt.basename(one.notebook),
          phaseText(waits(one) ? 'approval' : 'tool', trans)
        )
      )
    ];
    return (
      <TextItem
        source={trans.__('Prime: %1', told.join(' · '))}
        title={details.join('\n')}
        role="button"
        tabIndex={0}
        onClick={() => this._open()}
        onKeyDown={event => {
          if (event.key === 'Enter' || event.key === ' ') {
            event.preventDefault();
            this._open();
          }
        }}
      />
    );
  }

  /** Return what the agent of the current session does; `null` while it is idle. */
  private _doing(): string | null {
    const { conversation } = this._panel;
    return conversation?.activity.running
      ? activityText(
          conversation.activity,
          conversation.items[conversation.items.length - 1],
          this._trans
        )
      : null;
  }

  /** Return the active sessions other than the current one, most recently updated first. */
  private _others(): ISessionSummary[] {
    return this._active.sessions.filter(
      ({ id }) => id !== this._panel.sessionId
    );
  }

  private _open(): void {
    const waiting = this._others().find(waits);
    const { conversation } = this._panel;
    if (waiting && conversation?.activity.phase !== 'approval') {
      this._show(waiting.id);
    } else {
      this._panel.open();
    }
  }

  /** Update the item if something it shows has changed; most deltas change nothing. */
  private _onChange(): void {
    const conversation = this._panel.conversation;
    const now = [
      this._panel.sessionId,
      this._doing(),
      conversation?.contextTokens,
      conversation?.threshold,
      conversation?.costUsd,
      conversation?.compactionCount,
      ...this._others().map(one => `${one.notebook} ${waits(one)}`)
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

function waits(session: ISessionSummary): boolean {
  return session.approvals.length > 0;
}
