import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ISignal, Signal } from '@lumino/signaling';

import { PermissionMode, RestoreMode } from '../api/rest';

/** The user settings; `schema/plugin.json` describes each of them. */
export interface IPanelSettings {
  readonly sendWith: 'enter' | 'accel-enter';
  readonly permissionMode: PermissionMode | null;
  readonly model: string | null;
  /** `null`: the server's default. */
  readonly restoreVariables: RestoreMode | null;
  readonly toolCards: 'auto' | 'collapsed' | 'expanded';
  readonly showThinking: boolean;
  readonly showTurnDetails: boolean;
  readonly showHints: boolean;
  readonly notify: boolean;
  readonly loadRemoteImages: boolean;
}

export const DEFAULT_SETTINGS: IPanelSettings = {
  sendWith: 'enter',
  permissionMode: null,
  model: null,
  restoreVariables: null,
  toolCards: 'auto',
  showThinking: false,
  showTurnDetails: true,
  showHints: true,
  notify: true,
  loadRemoteImages: false
};

/** The current settings; the defaults until they are loaded, or if there is no registry. */
export class PanelSettings {
  get value(): IPanelSettings {
    return this._value;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  async load(registry: ISettingRegistry, pluginId: string): Promise<void> {
    const settings = await registry.load(pluginId);
    const read = (): void => {
      this._value = fromComposite(settings.composite as Record<string, any>);
      this._changed.emit();
    };
    settings.changed.connect(read);
    read();
  }

  private _value = DEFAULT_SETTINGS;
  private _changed = new Signal<this, void>(this);
}

/** Convert the composite settings. `default`, or an empty model, means the server's default. */
export function fromComposite(composite: Record<string, any>): IPanelSettings {
  return {
    ...DEFAULT_SETTINGS,
    ...composite,
    permissionMode:
      !composite.permissionMode || composite.permissionMode === 'default'
        ? null
        : composite.permissionMode,
    model: composite.model || null,
    restoreVariables:
      !composite.restoreVariables || composite.restoreVariables === 'default'
        ? null
        : composite.restoreVariables
  };
}
