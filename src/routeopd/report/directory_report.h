// A report of directories: runs, evaluations, probes, judgements and studies, each known by its files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "routeopd/report/block.h"
#include "routeopd/report/directory_facts.h"
#include "routeopd/report/evaluation_files.h"

namespace routeopd::report {

enum class DirectoryKind { kRun, kEval, kProbe, kJudge, kStudy };

// What a study adds to a report.
struct Chapter {
  std::vector<Fact> facts;
  std::string question;  // what was asked, in a sentence; may be empty
  std::string verdict;   // what was found, in a sentence or two
  Section lead;          // what a reader should see first; may have no blocks
  std::vector<Section> sections;
  std::vector<std::string> missing;
};

// What several studies add: a chapter each, and what they show together.
struct StudyChapters {
  std::vector<Chapter> chapters;  // in the order of the directories
  // Of more than one; else empty.
  std::string question, verdict;
  Section lead;
};

// How studies are read. This library knows nothing of them: study/study_report.h does, and the program hands
// it in.
struct StudyReader {
  std::string manifest;  // the file by which a study's directory is known; empty: there are no studies
  // Labels of `judges` take the place of those beside responses.
  std::function<StudyChapters(const std::vector<std::string>& directories,
                              const std::vector<JudgeFiles>& judges)>
      read;
};

// Throws UserError, which says what was looked for, for a directory that is none of these.
DirectoryKind kind_of_directory(const std::string& directory, const std::string& study_manifest = {});

// A report of all of them, in this order: studies, runs, evaluations, probes, judgements. What is broken in
// their files becomes sentences of the report. An empty title is made from the directories.
Report report_of(const std::vector<std::string>& directories, std::string title,
                 const StudyReader& study = {});

}  // namespace routeopd::report
