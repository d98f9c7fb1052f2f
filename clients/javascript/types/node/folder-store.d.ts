/** A queue's store in a folder, for Node: one private file for each entry. Processes may share the folder. */
/** A `QueueStore`. */
export declare class FolderStore {
    #private;
    /** @param {string} folder made if it is missing */
    constructor(folder: string);
    names(): Promise<string[]>;
    /**
     * @param {string} name
     * @returns {Promise<string | null>}
     */
    read(name: string): Promise<string | null>;
    /**
     * @param {string} name
     * @param {string} text
     */
    write(name: string, text: string): Promise<void>;
    /** @param {string} name */
    remove(name: string): Promise<void>;
    /** @param {string} name */
    setAside(name: string): Promise<void>;
    /**
     * @template Result
     * @param {() => Promise<Result>} task
     */
    exclusively<Result>(task: () => Promise<Result>): Promise<Result>;
}
