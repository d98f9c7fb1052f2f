// Files of a WebGL player are in memory until FS.syncfs has written them to IndexedDB, one call at a time.
var ScoregateDisk = {
  $scoregateDisk: {
    wanted: 0,
    begun: 0,
    done: 0,
    failed: {},
    isBusy: false,
    run: function () {
      var disk = scoregateDisk;
      if (disk.isBusy || disk.begun === disk.wanted) return;
      disk.isBusy = true;
      var first = disk.begun + 1;
      disk.begun = disk.wanted;
      FS.syncfs(false, function (error) {
        for (var number = first; error && number <= disk.begun; number += 1) disk.failed[number] = true;
        disk.done = disk.begun;
        disk.isBusy = false;
        disk.run();
      });
    },
  },

  // Asks for a write of everything so far, and returns its number.
  ScoregateDiskWant: function () {
    scoregateDisk.wanted += 1;
    scoregateDisk.run();
    return scoregateDisk.wanted;
  },

  // Returns 0 while it goes on, 1 once it is done, -1 if it failed.
  ScoregateDiskDone: function (wanted) {
    if (scoregateDisk.done < wanted) return 0;
    var failed = scoregateDisk.failed[wanted];
    delete scoregateDisk.failed[wanted];
    return failed ? -1 : 1;
  },
};

autoAddDeps(ScoregateDisk, "$scoregateDisk");
mergeInto(LibraryManager.library, ScoregateDisk);
